"""Debian's Chromium without windows, and the configuration with which Playwright runs it."""

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium-headless-shell")

CONFIGURATION = f"""
export default {{
  workers: 1,
  timeout: 180000,
  expect: {{ timeout: 30000 }},
  use: {{
    launchOptions: {{ executablePath: '{CHROMIUM}', args: ['--no-sandbox'] }},
    permissions: ['local-network-access'], // a page that this machine does not serve may reach the server
  }},
}}
"""

needs_chromium = pytest.mark.skipif(
    not CHROMIUM.exists(), reason="needs Chromium: `scripts/system-packages` installs it"
)
