// Connections that break, that are refused, and that a hidden page gives up.

import { badge, expect, notificationsOf, openSignedIn, Shop, status, test, titles, turn } from './shop.js'

test('a stream that breaks goes on after the last event, and nothing is lost or doubled', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await page.addInitScript(() => {
    const original = window.fetch
    window.streams = []
    window.fetch = async (url, options) => {
      const response = await original(url, options)
      if (!String(url).endsWith('/stream')) return response
      const cut = new AbortController()
      window.streams.push({ cut, lastEventId: options.headers['Last-Event-ID'] })
      return new Response(response.body.pipeThrough(new TransformStream(), { signal: cut.signal }), response)
    }
  })
  await openSignedIn(page, bridge, wallet)
  await shop.notify('Before')
  await expect(titles(page)).toHaveText(['Before'])

  const newest = (await notificationsOf(page, bridge))[0].id

  await page.evaluate(() => window.streams[0].cut.abort())
  await shop.notify('Meanwhile')
  await expect(titles(page)).toHaveText(['Meanwhile', 'Before'])
  await shop.notify('After')

  await expect(titles(page)).toHaveText(['After', 'Meanwhile', 'Before'])
  await expect(badge(page)).toHaveText('3')
  await expect.poll(() => page.evaluate(() => window.streams.map(({ lastEventId }) => lastEventId))).toEqual([undefined, newest])
})

/** The page's clock stands still; `timers` are the delays of its long timers, and no pause is shortened by chance. */
async function holdClock(page) {
  await page.clock.install()
  await page.clock.pauseAt(Date.now() + 60_000) // a moment that the page has not reached before it is told
  await page.addInitScript(() => {
    Math.random = () => 0
    window.timers = []
    const { setTimeout } = window
    window.setTimeout = (work, milliseconds) => {
      if (milliseconds >= 500) window.timers.push(milliseconds)
      return setTimeout(work, milliseconds)
    }
  })
}

const timers = (page) => page.evaluate(() => window.timers)

test('a server that refuses is asked again, more slowly each time', async ({ page, bridge, wallet }) => {
  await holdClock(page)
  let refused = 0
  await page.route('**/inbox/stream', (route) => {
    refused += 1
    return route.fulfill({ status: 503, contentType: 'text/html', body: '<h1>Bad gateway</h1>' })
  })
  await openSignedIn(page, bridge, wallet)
  await expect(status(page)).toHaveText('Live updates are interrupted. Trying again…')
  const pauses = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
  for (const [number, milliseconds] of pauses.entries()) {
    await expect.poll(() => timers(page)).toEqual(pauses.slice(0, number + 1))
    expect(refused).toBe(number + 1)
    if (number + 1 === pauses.length) await page.unroute('**/inbox/stream')
    await page.clock.runFor(milliseconds)
  }

  await expect(status(page)).toHaveText('')
  await expect(page.getByText('No notifications yet.')).toBeVisible()
})

test('a server that names a time is asked no sooner', async ({ page, bridge, wallet }) => {
  await holdClock(page)
  await page.route('**/inbox/stream', (route) => route.fulfill({ status: 429, headers: { 'Retry-After': '7' } }))

  await openSignedIn(page, bridge, wallet)

  await expect.poll(() => timers(page)).toEqual([7000])
})

test('a stream without a sign of life is opened again', async ({ page, bridge, wallet }) => {
  await holdClock(page)
  let opened = 0
  page.on('request', (request) => (opened += request.url().endsWith('/stream') ? 1 : 0))
  await openSignedIn(page, bridge, wallet)
  await expect.poll(() => timers(page)).toEqual([45_000, 45_000]) // before and after the server's first words

  await page.clock.runFor(45_000)
  await expect.poll(() => timers(page)).toEqual([45_000, 45_000, 500])
  await page.clock.runFor(500)

  await expect.poll(() => opened).toBe(2)
  await expect(status(page)).toHaveText('')
})

test('a hidden page holds no connection, and catches up when it is seen again', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await openSignedIn(page, bridge, wallet)
  await expect(page.getByText('No notifications yet.')).toBeVisible()
  const ended = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/stream'))

  await turn(page, 'hidden')
  await ended
  await shop.notify('While it was hidden')
  await expect(titles(page)).toHaveCount(0)
  await turn(page, 'visible')

  await expect(titles(page)).toHaveText(['While it was hidden'])
})
