"""Opens a page from disk in headless Chromium as different readers do, and says, as JSON, what they meet: argv is
the page, the browser, and where screenshots go (or nothing)."""

import json
import os
import shutil
import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

page_file, browser_program, *pictures = sys.argv[1:]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
READERS = {
    "light": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
    "without_script": {"viewport": DESKTOP, "java_script_enabled": False},
}


def look(browser, name, options):
    """What one reader meets."""
    context = browser.new_context(**options)
    page = context.new_page()
    console, requests = [], []
    page.on("console", lambda message: console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: console.append(f"error: {error}"))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(Path(page_file).as_uri())
    page.wait_for_load_state("load")
    seen = {
        "console": console,
        "requests": requests,
        # Wider than the window: it would have to be moved sideways as a whole.
        "too_wide_by": page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"),
        "first_paint_ms": page.evaluate(
            "performance.getEntriesByName('first-contentful-paint').map(paint => paint.startTime)[0] ?? null"
        ),
        "text": page.inner_text("body"),
        "links_to_nowhere": page.evaluate(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map(link => link.hash.slice(1))"
            ".filter(id => !document.getElementById(decodeURIComponent(id)))"
        ),
    }
    if options.get("java_script_enabled", True):
        # The contrast of what is closed is looked at, too.
        page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
        found = Axe().run(page).response["violations"]
        seen["faults"] = [
            {
                "rule": fault["id"],
                "impact": fault["impact"],
                "nodes": [node["html"][:200] + " " + (node.get("failureSummary") or "") for node in fault["nodes"][:3]],
            }
            for fault in found
        ]
        page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = false })")
    if pictures:
        page.screenshot(path=f"{pictures[0]}/{name}.png")
    context.close()
    return seen


with sync_playwright() as playwright:
    # Chromium has no sandbox of its own for root.
    browser = playwright.chromium.launch(
        executable_path=shutil.which(browser_program), args=["--no-sandbox"] if os.geteuid() == 0 else []
    )
    json.dump({name: look(browser, name, options) for name, options in READERS.items()}, sys.stdout)
    browser.close()
