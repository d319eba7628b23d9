"""A page in headless Chromium, as different readers have it before them."""

import json
import os
import shutil
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
READERS = {
    "light": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
    "without_script": {"viewport": DESKTOP, "java_script_enabled": False},
}

# What depends on the colours, and on the width; everything else is the same as in light.
FAULTS_OF = {
    "dark": {"runOnly": ["color-contrast"]},
    "phone": {"runOnly": ["scrollable-region-focusable", "target-size", "color-contrast"]},
}


def opened(browser, options):
    """A new page of a reader's, and what its console says and what it asks for from now on."""
    page = browser.new_context(**options).new_page()
    console, requests = [], []
    page.on("console", lambda message: console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: console.append(f"error: {error}"))
    page.on("request", lambda request: requests.append(request.url))
    return page, console, requests


def faults(page, reader):
    """What axe has against the page as that reader sees it."""
    return [
        {
            "rule": fault["id"],
            "impact": fault["impact"],
            "nodes": [node["html"][:200] + " " + (node.get("failureSummary") or "") for node in fault["nodes"][:3]],
        }
        for fault in Axe().run(page, options=FAULTS_OF.get(reader, {})).response["violations"]
    ]


def tell(program, look):
    """Says, as JSON, what `look` (of a browser, a reader's name and options) gives for each reader."""
    with sync_playwright() as playwright:
        # Chromium has no sandbox of its own for root.
        browser = playwright.chromium.launch(
            executable_path=shutil.which(program), args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        json.dump({name: look(browser, name, options) for name, options in READERS.items()}, sys.stdout)
        browser.close()
