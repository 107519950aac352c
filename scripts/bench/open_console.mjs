// Chromium with the page of traffic open: `node open_console.mjs LINK PAGE SECONDS` prints memory and frames as JSON.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const [link, address, seconds] = process.argv.slice(2)
const { chromium } = createRequire(new URL('../../tests/node/package.json', import.meta.url))('@playwright/test')
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium-headless-shell', args: ['--no-sandbox'] })

/** Memory in RAM of the greatest renderer: all of it, and what no other process shares. */
async function memory(session) {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  const all = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => {
    const file = `/proc/${id}/smaps_rollup`
    const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
    const mebibytes = (name) => [...text.matchAll(name)].reduce((sum, [, kib]) => sum + kib / 1024, 0)
    return [mebibytes(/^Rss:\s+(\d+)/gm), mebibytes(/^Private_\w+:\s+(\d+)/gm)]
  })
  return [0, 1].map((which) => Math.max(...all.map((each) => each[which])))
}

/** In the page: the gaps between frames, and what the stream brings. */
function record() {
  const seen = (window.seen = { frames: 0, late: 0, longest_ms: 0, events: 0, skipped: 0 })
  const { source } = document.querySelector('live-traffic')
  source.addEventListener('request', () => { seen.events += 1 })
  source.addEventListener('skipped', ({ data }) => { seen.skipped += JSON.parse(data).changes })
  let before = performance.now()
  requestAnimationFrame(function frame(now) {
    const gap = now - before
    before = now
    seen.frames += 1
    seen.late += gap > 50
    seen.longest_ms = Math.max(seen.longest_ms, gap)
    requestAnimationFrame(frame)
  })
}

try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
  await page.goto(link)
  await page.goto(address)
  await page.waitForTimeout(1000)
  const inPage = await page.context().newCDPSession(page)
  const inBrowser = await browser.newBrowserCDPSession()
  await inPage.send('Performance.enable')
  await page.evaluate(record)
  const most = { rss_mib: 0, private_mib: 0, heap_mib: 0 }
  for (const end = Date.now() + 1000 * seconds; Date.now() < end;) {
    const { metrics } = await inPage.send('Performance.getMetrics')
    const heap = metrics.find(({ name }) => name === 'JSHeapUsedSize').value / 2 ** 20
    const now = [...await memory(inBrowser), heap]
    Object.keys(most).forEach((name, which) => { most[name] = Math.max(most[name], now[which]) })
    await page.waitForTimeout(1000)
  }
  const { frames, late, ...seen } = await page.evaluate(() => window.seen)
  const rows = await page.locator('live-traffic tbody tr').count()
  console.log(JSON.stringify({ ...most, frames, late_percent: 100 * late / frames, ...seen, rows }))
} finally {
  await browser.close()
}
