"""Goes through the pages of `vioperf view` in headless Chromium as a reader does, and says, as JSON, what was met: argv is
the address, the browser, and where screenshots go (or nothing)."""

import json
import os
import shutil
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

address, browser_program, *pictures = sys.argv[1:]
DESKTOP = {"width": 1280, "height": 900}
READERS = {
    "light": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "without_script": {"viewport": DESKTOP, "java_script_enabled": False},
}
FAULTS_OF = {"dark": {"runOnly": ["color-contrast"]}, "phone": {"runOnly": ["target-size", "scrollable-region-focusable"]}}


def walk(page, met):
    """From page to page by what is on them; gives what stands there."""
    page.goto(address)
    met("runs")
    walked = {"all": ids(page)}
    page.select_option("select[name=kernel]", label="6.12.0")
    page.click("button:has-text('Show')")
    met("filtered")
    walked["filtered"] = ids(page)
    walked["filter_in_address"] = "kernel=6.12.0" in page.url
    page.click("text=show all")
    walked["gone"] = page.locator(".gone").count()
    page.check("input[name=a][value='%s']" % walked["all"][-1])
    page.check("input[name=b][value='%s']" % walked["all"][1])  # the newest is gone
    page.click("button:has-text('Compare')")
    met("two runs")
    for folded in page.locator("summary:has-text('The same as a table')").all():
        folded.click()
    tables = page.locator("table.compared")
    walked["compared"] = {
        table.get_attribute("data-metric"): [
            [text(cell) for cell in row.locator("th, td").all()] for row in table.locator("tbody tr").all()
        ]
        for table in tables.all()
    }
    walked["lead"] = page.inner_text("header .lead")
    page.click("text=Over time")
    met("over time")
    page.click("th a:has-text('virtio')")
    met("a cell")
    walked["trend"] = [
        [text(cell) for cell in row.locator("th, td").all()] for row in page.locator("table >> tbody tr").all()
    ]
    walked["changes"] = page.locator(".changes li").all_inner_texts()
    # A ring leads to its run, and that has a way back.
    page.locator(".trend a").first.click()
    met("a run")
    walked["run"] = page.url
    page.click("text=All runs")
    walked["back"] = ids(page)
    return walked


def text(cell):
    value = cell.get_attribute("data-value")
    return cell.inner_text().strip() if value is None else float(value)


def ids(page):
    return page.locator("table.runs tbody code").all_inner_texts()


def look(browser, name, options):
    context = browser.new_context(**options)
    page = context.new_page()
    seen = {"console": [], "requests": [], "faults": [], "too_wide": []}
    page.on("console", lambda message: seen["console"].append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen["console"].append(f"error: {error}"))
    page.on("request", lambda request: seen["requests"].append(request.url))
    has_scripts = options.get("java_script_enabled", True)

    def met(what):
        page.wait_for_load_state("load")
        if pictures:
            page.screenshot(path=f"{pictures[0]}/{what.replace(' ', '-')}-{name}.png", full_page=what != "a run")
        if not has_scripts:
            return
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            seen["too_wide"].append(what)
        # The report's own page is looked at by page.py.
        if what == "a run" or name == "phone" and what not in ("runs", "two runs"):
            return
        for fault in Axe().run(page, options=FAULTS_OF.get(name, {})).response["violations"]:
            nodes = [node["html"][:200] + " " + (node.get("failureSummary") or "") for node in fault["nodes"][:3]]
            seen["faults"].append({"page": what, "rule": fault["id"], "impact": fault["impact"], "nodes": nodes})

    seen["walked"] = walk(page, met)
    if name == "light":
        head = page.locator("th .sort:has-text('began')")
        head.focus()
        for _ in range(2):
            page.keyboard.press("Enter")
        seen["oldest_first"] = ids(page)
    context.close()
    return seen


with sync_playwright() as playwright:
    # Chromium has no sandbox of its own for root.
    browser = playwright.chromium.launch(
        executable_path=shutil.which(browser_program), args=["--no-sandbox"] if os.geteuid() == 0 else []
    )
    json.dump({name: look(browser, name, options) for name, options in READERS.items()}, sys.stdout)
    browser.close()
