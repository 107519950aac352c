// Reading, marking as read, and subscribing, on the server's page.

import { alert, badge, bearerOf, expect, notificationsOf, openSignedIn, reads, row, Shop, status, test, titles, turn } from './shop.js'

test('an account signs in, reads what arrives live, and marks it as read', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await shop.notify('First')
  await openSignedIn(page, bridge, wallet)
  await expect(titles(page)).toHaveText(['First'])
  await page.evaluate(() => {
    window.counts = []
    addEventListener('bridge-inbox-unread', ({ detail }) => window.counts.push(detail.unread))
  })

  await shop.notify('Second', { url: 'https://shop.example/orders/2' })
  await expect(titles(page)).toHaveText(['Second', 'First'])
  await expect(status(page)).toHaveText('New notification: Second')
  await expect(badge(page)).toHaveText('2')

  await expect(page.locator('[part=body]', { hasText: 'About Second.' })).toBeHidden()
  await row(page, 'Unread: Second').click()
  await expect(page.locator('[part=body]', { hasText: 'About Second.' })).toBeVisible()
  await expect(badge(page)).toHaveText('1')
  expect(await reads(page)).toBe('1')
  const link = page.getByRole('link', { name: 'Open shop.example' })
  await expect(link).toHaveAttribute('rel', 'noopener noreferrer')
  await expect(link).toHaveAttribute('target', '_blank')
  await expect(row(page, 'Second')).toHaveAttribute('aria-expanded', 'true')
  await expect.poll(() => page.evaluate(() => window.counts)).toEqual([2, 1])

  await page.reload()
  await expect(badge(page)).toHaveText('1')
  await expect(row(page, 'Unread: First')).toBeVisible()
  await expect(row(page, 'Unread: Second')).toBeHidden()
})

test('pages of older notifications, unread ones alone, and all marked as read', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  for (let number = 1; number <= 53; number += 1) await shop.notify(`Number ${number}`)
  await openSignedIn(page, bridge, wallet)

  await expect(titles(page)).toHaveCount(50)
  await expect(titles(page).first()).toHaveText('Number 53')
  await expect(badge(page)).toHaveText('53')
  await page.getByRole('button', { name: 'Show older' }).click()
  await expect(titles(page)).toHaveCount(53)
  await expect(titles(page).last()).toHaveText('Number 1')
  await expect(page.getByRole('button', { name: 'Show older' })).toBeHidden()

  await row(page, 'Unread: Number 53').click()
  await page.getByRole('button', { name: 'Unread', exact: true }).click()
  await expect(titles(page)).toHaveCount(52)
  await row(page, 'Unread: Number 52').click()
  await expect(badge(page)).toHaveText('51')
  await expect(titles(page).first()).toHaveText('Number 52')

  await page.getByRole('button', { name: 'Mark all as read' }).click()
  await expect(status(page)).toHaveText('All notifications are marked as read.')
  await expect(badge(page)).toBeHidden()
  await page.getByRole('button', { name: 'Unread', exact: true }).click()
  await expect(page.getByText('Nothing unread.')).toBeVisible()
  await page.reload()
  await expect(titles(page)).toHaveCount(50)
  expect(await reads(page)).toBe('0')
})

test('types are chosen, a subscription ends and begins again', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await openSignedIn(page, bridge, wallet)
  await expect(page.getByText('No notifications yet.')).toBeVisible()

  await page.getByRole('button', { name: 'Subscriptions' }).click()
  await page.getByLabel('Offers').uncheck()
  await expect(status(page)).toHaveText('Your choice for Shop is saved.')
  expect(await shop.types()).toEqual(['news'])
  await expect(page.getByLabel('Offers')).toBeFocused()
  const saved = page.waitForResponse((response) => response.request().method() === 'GET' && response.url().endsWith('/inbox/subscriptions'))
  await page.getByLabel('Offers').check()
  await saved
  await expect.poll(() => shop.types()).toEqual(['news offers'])

  await page.getByRole('button', { name: 'Unsubscribe' }).click()
  await expect(status(page)).toHaveText('You are not subscribed to Shop.')
  expect(await shop.types()).toEqual([])
  const subscribe = page.getByRole('button', { name: 'Subscribe', exact: true })
  await expect(subscribe).toBeFocused()
  await subscribe.click()
  await expect(status(page)).toHaveText('You are subscribed to Shop.')
  expect(await shop.types()).toEqual(['news offers'])
})

test('without a project the inbox has all of them, and one that was left can be taken up again', async ({ page, bridge, wallet }) => {
  const [account] = wallet.accounts
  const shop = await Shop.open(bridge, account)
  const bakery = await Shop.open(bridge, account, { id: 'bakery', name: 'Bakery' })
  await shop.notify('Shoes')
  await bakery.notify('Bread', { type: 'offers' })
  await openSignedIn(page, bridge, wallet, '')

  await expect(titles(page)).toHaveText(['Bread', 'Shoes'])
  await expect(page.locator('[part=facts]').first()).toContainText('Bakery · Offers · ')
  await page.getByRole('button', { name: 'Subscriptions' }).click()
  await page.getByRole('group', { name: 'Receive from Bakery' }).getByRole('button', { name: 'Unsubscribe' }).click()
  await expect(page.locator('[part=settings]')).toContainText('You are not subscribed to Bakery.')
  expect(await bakery.types()).toEqual([])
  expect(await shop.types()).toEqual(['news offers'])
  await page.getByRole('button', { name: 'Subscribe', exact: true }).click()
  await expect(page.getByRole('group', { name: 'Receive from Bakery' })).toBeVisible()
})

test('another project is not shown, also when it arrives', async ({ page, bridge, wallet }) => {
  const [account] = wallet.accounts
  const shop = await Shop.open(bridge, account)
  const bakery = await Shop.open(bridge, account, { id: 'bakery', name: 'Bakery' })
  await bakery.notify('Bread')
  await openSignedIn(page, bridge, wallet)
  await expect(page.getByText('No notifications yet.')).toBeVisible()

  await bakery.notify('Cake')
  await shop.notify('Shoes')

  await expect(titles(page)).toHaveText(['Shoes'])
  await expect(badge(page)).toHaveText('1')
})

test('a project that does not exist cannot be subscribed to', async ({ page, bridge, wallet }) => {
  await openSignedIn(page, bridge, wallet, '?project=nowhere')

  await page.getByRole('button', { name: 'Subscribe', exact: true }).click()

  await expect(alert(page)).toContainText('project')
  await expect(page.getByText('Signed in as')).toBeVisible()
})

test('what was read elsewhere is read here after a new connection', async ({ page, bridge, wallet, context }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await shop.notify('Twice')
  await openSignedIn(page, bridge, wallet)
  await expect(badge(page)).toHaveText('1')
  const [{ id }] = await notificationsOf(page, bridge)
  await fetch(`${bridge.url}/inbox/notifications/read`, {
    method: 'POST',
    headers: { ...(await bearerOf(page)), 'Content-Type': 'application/json' },
    body: JSON.stringify({ ids: [id] }),
  })

  await turn(page, 'hidden')
  await turn(page, 'visible')

  await expect(badge(page)).toBeHidden()
})

test('a read that the server refuses is unread again, with the reason', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await shop.notify('Stubborn')
  await openSignedIn(page, bridge, wallet)
  await page.route('**/notifications/read', (route) => route.abort())

  await row(page, 'Unread: Stubborn').click()

  await expect(alert(page)).toHaveText('The server cannot be reached.')
  await expect(badge(page)).toHaveText('1')
  await expect(page.locator('[part=body]', { hasText: 'About Stubborn.' })).toBeVisible()
})
