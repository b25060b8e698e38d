"""What needs a person: on the overview, beside the work, and on the pages of alarms and notifications."""

import pytest
from conftest import Server, picture
from playwright.sync_api import expect

NIGHTLY = """
task: nightly
owner: billing
run: "echo 'no rates for today' >&2; exit 4"
"""

TARDY = """
task: tardy
owner: ann
run: "until [ -e {release} ]; do sleep 0.1; done"
deadline: 1s
"""

NOTIFY = """
channels:
  ops: {{ kind: command, run: [sh, -c, "cat >> {told}"] }}
  pager: {{ kind: command, run: [sh, -c, "echo 'no answer' >&2; exit 1"] }}
routes:
  - {{ channels: [ops, pager], on: [failed, late] }}
"""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """A server with an entry that fails again and again, and with late work."""
    directory = tmp_path_factory.mktemp("troubled")
    release = directory / "release"
    (directory / "nightly.yaml").write_text(NIGHTLY)
    (directory / "tardy.yaml").write_text(TARDY.format(release=release))
    (directory / "notify.yaml").write_text(NOTIFY.format(told=directory / "told"))
    server = Server(directory, "--notify-file", str(directory / "notify.yaml"))
    server.baton("library", "put", "nightly.yaml")
    for _ in range(3):
        server.baton("trigger", "--wait", "billing/nightly", check=False)
    server.late = server.baton("submit", "tardy.yaml")
    server.count("/alarms/", 1)
    # Each of the three failures and the alarm.
    server.count("/notifications/?channel=ops&state=sent", 4)
    yield server
    release.touch()
    server.stop()


def test_the_overview_begins_with_what_needs_attention(page, troubled):
    page.goto(troubled.url)
    assert page.locator("main h2").first.text_content() == "Needs attention"
    rows = page.locator(".attention li")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("late")
    expect(rows.nth(0).locator("a")).to_have_attribute("href", f"/instances/{troubled.late}")
    expect(rows.nth(1)).to_contain_text("billing/nightly failed 3 times in a row: exit 4")
    picture(page, "attention")
    rows.nth(1).get_by_role("link", name="billing/nightly").click()
    expect(page.locator("h1")).to_contain_text("billing/nightly")
    assert page.problems == []


def test_alarms_are_listed_and_stand_beside_the_work(page, troubled):
    page.goto(troubled.url + "/alarms/")
    row = page.locator("#list tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("ann/tardy")
    row.get_by_role("link", name=troubled.late).click()
    expect(page.locator(".attention li")).to_contain_text("has not ended by its deadline")
    page.goto(troubled.url + "/alarms/?owner=billing")
    expect(page.locator("main")).to_contain_text("No alarm matches the filters.")
    assert page.problems == []


def test_notifications_show_what_was_told_and_which_channel_fails(page, troubled):
    page.goto(troubled.url + "/notifications/")
    expect(page.locator("#channel-ops")).to_contain_text("ok")
    expect(page.locator("#channel-pager")).to_contain_text("no answer", timeout=30_000)
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("late")
    picture(page, "notifications-told")
    page.get_by_label("Kind").select_option("failed")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("billing/nightly")
    page.locator("#channel-ops").get_by_role("button", name="Send a test").click()
    expect(page.locator("main .error")).to_have_count(0)
    assert page.problems == []
