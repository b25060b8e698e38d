"""Progress that tasks report of themselves: on the pages of an instance and of its run, and in a report."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from test_pages import open_page, picture

STEPS = """
workflow: steps
owner: ann
tasks:
  count:
    run: 'echo "1/4 <b>first</b>" > $BATON_PROGRESS; until test -e {go}; do sleep 0.05; done;
      echo "75% third" >> $BATON_PROGRESS; until test -e {end}; do sleep 0.05; done;
      echo "so much is broken" >&2; exit 4'
  next: {{ after: [count], run: "true" }}
"""


@pytest.fixture
def steps(server):
    """A run whose first task waits for two files."""
    names = [server.directory / name for name in ("steps-go", "steps-end")]
    for name in names:
        name.unlink(missing_ok=True)
    file = server.directory / "steps.yaml"
    file.write_text(STEPS.format(go=names[0], end=names[1]))
    run = server.baton("submit", file.name)
    server.until(f"/runs/{run}", "state", "RUNNING")
    server.count(f"/runs/{run}/items/", 1)
    item = server.get(f"/runs/{run}/items/")["items"][0]
    yield run, item["instance"], *names
    for name in names:
        name.touch()
    server.until(f"/runs/{run}", "state", "FAILED")


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_progress_is_a_bar_that_moves_while_the_page_is_open(page, server, steps):
    run, instance, go, end = steps
    open_page(page, server, f"/runs/{run}")
    told = page.locator(".told li")
    expect(told).to_contain_text("1/4 <b>first</b>", timeout=30_000)
    expect(told.get_by_role("link")).to_have_text(instance)
    expect(told.locator("progress")).to_have_js_property("position", 0.25)
    go.touch()
    expect(told).to_contain_text("75% third", timeout=30_000)
    expect(told.locator("progress")).to_have_js_property("position", 0.75)
    assert Axe().run(page).violations_count == 0
    picture(page, "progress-run")
    told.get_by_role("link").click()
    expect(page.locator(".told")).to_contain_text("75% third")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    picture(page, "progress-instance-small")
    end.touch()
    expect(page.locator("h1")).to_contain_text("FAILED", timeout=30_000)
    expect(page.locator(".told")).to_contain_text("75% third")
    assert page.problems == []


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("width", [1280, 360])
def test_a_report_is_readable_without_a_server(page, server, steps, width):
    run, _, go, end = steps
    go.touch()
    end.touch()
    server.until(f"/runs/{run}", "state", "FAILED")
    file = server.directory / f"{run}.html"
    server.baton("report", run, "-o", str(file))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(file.as_uri())
    expect(page.locator("h1")).to_contain_text(f"{run} steps FAILED")
    expect(page.locator("#h-failures")).to_be_visible()
    expect(page.locator("pre.output")).to_contain_text("so much is broken")
    for picture_of in ("graph", "gantt"):
        expect(page.locator(f"svg.{picture_of}")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert asked == [file.as_uri()]
    assert Axe().run(page).violations_count == 0
    picture(page, f"report-{width}")
    assert page.problems == []
