"""The page of an entry: the form of its parameters, pause, and backfill."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from test_pages import open_page, picture

TYPED = """
task: typed
owner: ann
run: env | grep BATON_PARAM_ | sort
params:
  count: { type: int, min: 1, max: 10, default: 3, description: Copies of the report. }
  ratio: { type: float, min: 0, max: 1, default: 0.5 }
  quiet: { type: bool, default: true }
  force: { type: bool }
  mode: { one_of: [fast, full], default: full }
  regions: [eu, us]
  day: "{{ nominal_time as %Y-%m-%d }}"
  title: null
"""


@pytest.fixture(scope="module")
def typed(server):
    (server.directory / "typed.yaml").write_text(TYPED)
    server.baton("library", "put", "typed.yaml")
    return "/ann/tasks/typed"


def open_form(page, server, path):
    """Opens the page of an entry, and its form."""
    open_page(page, server, path)
    page.locator("summary", has_text="Launch").click()


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_a_form_has_a_control_for_each_type(page, server, typed):
    open_form(page, server, typed)
    assert page.locator("[name='param.count']").evaluate("it => [it.type, it.min, it.max, it.step]") == ["number", "1", "10", "1"]
    assert page.locator("[name='param.ratio']").evaluate("it => [it.type, it.step]") == ["number", "any"]
    expect(page.get_by_role("checkbox", name="quiet")).to_be_checked()
    expect(page.get_by_label("mode")).to_have_value("full")
    expect(page.get_by_label("regions")).to_have_value("eu\nus")
    assert page.get_by_label("day").get_attribute("type") == "date"
    expect(page.get_by_label("count")).to_have_accessible_description("Copies of the report. (an integer from 1 to 10)")
    assert Axe().run(page).violations_count == 0
    picture(page, "launch")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    picture(page, "launch-small")
    # What is required and what is out of bounds stays in the browser.
    page.get_by_role("button", name="Launch").click()
    assert page.locator(":invalid").evaluate_all("all => all.map(it => it.name).filter(Boolean)") == ["param.force", "param.title"]
    assert page.problems == []


def test_typed_values_reach_the_task(page, server, typed):
    open_form(page, server, typed)
    page.get_by_label("count").fill("10")
    page.get_by_role("checkbox", name="quiet").uncheck()
    page.get_by_label("force").select_option("true")
    page.get_by_label("mode").select_option("fast")
    page.get_by_label("regions").fill("a, b\nc")
    page.get_by_label("day").fill("2026-01-31")
    page.get_by_label("title").fill("<b>&")
    page.get_by_role("button", name="Launch").click()
    expect(page.locator("h1")).to_contain_text("typed")
    log = page.locator("#log-stdout")
    expect(log).to_contain_text("BATON_PARAM_TITLE=<b>&", timeout=60_000)
    for line in ("COUNT=10", "RATIO=0.5", "QUIET=false", "FORCE=true", "MODE=fast", 'REGIONS=["a, b","c"]', "DAY=2026-01-31"):
        expect(log).to_contain_text(f"BATON_PARAM_{line}\n")
    assert page.problems == []


def test_errors_of_the_server_are_at_their_fields(page, server, typed):
    open_form(page, server, typed)
    page.get_by_label("count").fill("11")
    page.get_by_label("regions").fill("[1,")
    page.get_by_label("title").fill("kept")
    page.get_by_role("checkbox", name="quiet").uncheck()
    # At once: an update of the page would bring the checks of the browser back.
    page.locator("form.launch").evaluate("form => { form.noValidate = true; form.requestSubmit(); }")
    expect(page.locator("#error-count")).to_have_text("`11` is more than 10")
    expect(page.locator("#error-regions")).to_contain_text("is not JSON")
    expect(page.locator("#error-force")).to_have_text("The parameter `force` has no value")
    expect(page.get_by_label("count")).to_have_value("11")
    expect(page.get_by_label("title")).to_have_value("kept")
    expect(page.get_by_role("checkbox", name="quiet")).not_to_be_checked()
    assert Axe().run(page).violations_count == 0
    picture(page, "launch-refused")
    page.get_by_label("count").fill("10")
    page.get_by_label("regions").fill("eu")
    page.get_by_label("force").select_option("false")
    # The browser reports the status of the page.
    page.problems.clear()
    page.get_by_role("button", name="Launch").click()
    expect(page.locator("#log-stdout")).to_contain_text("BATON_PARAM_TITLE=kept", timeout=60_000)
    assert page.problems == []


BEAT = """
task: beat
owner: ann
run: '[ "$BATON_PARAM_HOW" = well ] || { echo "no rates" >&2; exit 4; }'
params: { how: well }
trigger: { schedule: "0 5 1 1 *", timezone: Europe/Berlin, slack: 20s, catch_up: all }
"""


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_an_entry_shows_at_first_sight_how_it_went_and_when_it_is_due(page, server):
    (server.directory / "beat.yaml").write_text(BEAT)
    server.baton("library", "put", "beat.yaml")
    known = len(server.get("/history/?name=beat")["items"])
    for number, how in enumerate(["well", "badly"]):
        server.baton("trigger", "ann/beat", "--param", f"how={how}")
        server.count("/history/?name=beat", known + number + 1)
    open_page(page, server, "/ann/tasks/beat")
    expect(page.locator(".failed")).to_contain_text("failed: exit 4")
    expect(page.get_by_role("group", name="Standard error")).to_have_text("no rates")
    expect(page.locator(".numbers")).to_contain_text("1/2" if known == 0 else "2/4")
    expect(page.locator(".grid .cell").last).to_have_class("cell s-FAILED")
    last = page.locator(".grid .column").last
    assert "FAILED" in last.get_attribute("aria-label")
    expect(page.locator(".facts")).to_contain_text("20s")
    due = page.get_by_role("list", name="Next due times").locator("li")
    expect(due).to_have_count(5)
    expect(due.first).to_contain_text("-01-01 05:00:00 +01:00 Europe/Berlin")
    # The form is behind its button.
    expect(page.get_by_label("how")).to_be_hidden()
    assert Axe().run(page).violations_count == 0
    picture(page, "entry-failed")
    last.click()
    expect(page.locator("h1")).to_contain_text("beat")
    assert page.problems == []


def test_revisions_are_compared(page, server):
    (server.directory / "beat.yaml").write_text(BEAT)
    server.baton("library", "put", "beat.yaml")
    for slack in ["30s", "40s"]:
        (server.directory / "beat.yaml").write_text(BEAT.replace("20s", slack))
        server.baton("library", "put", "beat.yaml")
    latest = server.get("/ann/tasks/beat")["revision"]
    open_page(page, server, "/ann/tasks/beat")
    expect(page.locator(".diff .ins")).to_contain_text('slack: "40s"')
    expect(page.locator(".diff .del")).to_contain_text('slack: "30s"')
    page.get_by_role("link", name=f"Changes from {latest - 2} to {latest}").click()
    expect(page.locator("#h-changes")).to_have_text(f"Changes since revision {latest - 2}")
    expect(page.locator(".diff .del")).to_contain_text('slack: "20s"')
    assert page.problems == []
