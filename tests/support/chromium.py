"""Debian's Chromium, and the configuration with which Playwright runs it."""

from pathlib import Path

import pytest

_CHROMIUM = Path("/usr/bin/chromium")

CONFIGURATION = f"""
export default {{
  workers: 1,
  timeout: 180000,
  expect: {{ timeout: 30000 }},
  use: {{
    launchOptions: {{ executablePath: '{_CHROMIUM}', args: ['--no-sandbox'] }},
    permissions: ['local-network-access'], // a page that this machine does not serve may reach the server
  }},
}}
"""

needs_chromium = pytest.mark.skipif(
    not _CHROMIUM.exists(), reason="needs Chromium: `scripts/system-packages` installs it"
)
