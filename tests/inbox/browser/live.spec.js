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
  expect(await page.evaluate(() => window.streams.map(({ lastEventId }) => lastEventId))).toEqual([undefined, newest])
})

test('a server that refuses is asked again, more slowly each time', async ({ page, bridge, wallet }) => {
  await page.clock.install()
  await page.clock.pauseAt(Date.now() + 1000)
  await page.addInitScript(() => (Math.random = () => 0))
  let refused = 0
  await page.route('**/inbox/stream', (route) => {
    refused += 1
    return route.fulfill({ status: 503, contentType: 'text/html', body: '<h1>Bad gateway</h1>' })
  })
  await openSignedIn(page, bridge, wallet)
  await expect(status(page)).toHaveText('Live updates are interrupted. Trying again…')
  await expect.poll(() => refused).toBe(1)
  for (const [number, seconds] of [1, 2, 4, 8].entries()) {
    await page.clock.runFor(seconds * 500 - 1)
    expect(refused).toBe(number + 1)
    await page.clock.runFor(seconds * 500 + 1)
    await expect.poll(() => refused).toBe(number + 2)
  }

  await page.unroute('**/inbox/stream')
  await page.clock.runFor(16_000)

  await expect(status(page)).toHaveText('')
  await expect(page.getByText('No notifications yet.')).toBeVisible()
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
