"""Forms that set limits and change the library."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import picture
from playwright.sync_api import expect
from test_pages import open_page

GOOD = """
task: NAME
owner: ann
run: echo one
trigger: { schedule: every hour }
"""


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_a_limit_is_set_changed_and_removed(page, server):
    open_page(page, server, "/limits/")
    page.locator("summary", has_text="Set a limit").click()
    page.get_by_label("Name").fill("cpu")
    page.locator("#limit-capacity").fill("3")
    page.get_by_role("button", name="Set", exact=True).first.click()
    expect(page.get_by_label("Name")).to_have_accessible_description(re.compile("it is not the name of a custom resource; use a name such as"))
    expect(page.locator("#limit-capacity")).to_have_value("3")
    assert Axe().run(page).violations_count == 0
    picture(page, "limits-refused")
    # The browser reports the status of the page.
    page.problems.clear()
    page.get_by_label("Name").fill("licences")
    page.get_by_role("button", name="Set", exact=True).first.click()
    row = page.locator("tr", has_text="licences")
    expect(row).to_contain_text("3")
    row.locator("summary", has_text="Change").click()
    row.get_by_label("Capacity of licences").fill("5")
    assert Axe().run(page).violations_count == 0
    picture(page, "limits")
    row.get_by_role("button", name="Set", exact=True).click()
    expect(row.locator("td").nth(2)).to_have_text("5")
    row.locator("summary", has_text="Remove").click()
    row.get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator("tr", has_text="licences")).to_have_count(0)
    assert page.problems == []


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_an_entry_is_checked_saved_changed_and_removed(page, server):
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    name = "hourly-dark" if dark else "hourly-light"
    good = GOOD.strip().replace("NAME", name)
    open_page(page, server, "/library/")
    page.get_by_role("link", name="Add an entry").click()
    text = page.get_by_label("Definition")
    text.fill(good.replace("hour }", "huor }"))
    page.get_by_role("button", name="Check").click()
    error = page.locator(".errors li")
    expect(error).to_have_count(1)
    expect(error).to_contain_text("line 4")
    expect(error).to_contain_text("trigger.schedule")
    expect(error).to_contain_text("every hour")
    assert Axe().run(page).violations_count == 0
    picture(page, "edit-refused")
    page.get_by_role("link", name="line 4").click()
    assert page.evaluate("document.getSelection().toString()").startswith("trigger:")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size({"width": 1280, "height": 900})
    page.problems.clear()
    text.fill(good)
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status").first).to_have_text(f"ann/{name}: would be created, revision 1")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text(f"ann/{name} task, revision 1")
    page.get_by_role("link", name="Edit").click()
    expect(text).to_have_value(f"owner: ann\nrun: echo one\ntask: {name}\ntrigger:\n  schedule: every hour\n")
    # Another client is faster.
    (server.directory / "hourly.yaml").write_text(good.replace("one", "two"))
    server.baton("library", "put", "hourly.yaml")
    text.fill(good.replace("one", "three"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text(f"ann/{name} has revision 2 now, and the text was made from revision 1")
    expect(page.locator(".diff .del")).to_contain_text("echo two")
    expect(page.locator(".diff .ins")).to_contain_text("echo three")
    assert Axe().run(page).violations_count == 0
    picture(page, "edit-conflict")
    page.problems.clear()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text(f"ann/{name} task, revision 3")
    page.locator("summary", has_text="Remove").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page).to_have_url(server.url + "/library/")
    expect(page.locator("#list")).not_to_contain_text(name)
    assert page.problems == []


def test_forms_work_without_scripts(browser, server):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url + "/-/edit?entry=ann/nightly")
    text = page.get_by_label("Definition")
    text.fill(text.input_value().replace("9:00", "10:00"))
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".diff .ins")).to_contain_text("every day at 10:00")
    page.goto(server.url + "/limits/")
    page.locator("summary", has_text="Set a limit").click()
    page.get_by_label("Name").fill("without-scripts")
    page.locator("#limit-capacity").fill("2")
    page.get_by_role("button", name="Set", exact=True).first.click()
    expect(page.locator("tr", has_text="without-scripts")).to_have_count(1)
    server.baton("limits", "rm", "without-scripts")
    context.close()
