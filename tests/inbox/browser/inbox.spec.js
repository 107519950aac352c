// The inbox in a real browser: on the server's page, and in pages of other origins that have a strict policy.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { expect, test } from '@bridge-server/test/playwright'

const TOKEN = 'of-the-operator'
const SHOP = 'http://shop.localhost'
const MARKUP = '<img src=x onerror="hacked=1">'
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

test.use({
  bridgeOptions: {
    settings: { admin_token: TOKEN, inbox_origins: [SHOP], account_burst: 1000 },
  },
  permissions: ['local-network-access'],
})

/** The backend of a project with the types news and offers; `account` is subscribed. */
class Shop {
  sent = 0

  static async open(bridge, account, { id = 'shop', name = 'Shop' } = {}) {
    const shop = new Shop()
    Object.assign(shop, { bridge, account, id })
    const created = await shop.#ask('/admin/projects', TOKEN, { name, project_id: id })
    shop.secret = created.secret.secret ?? created.secret
    await shop.#ask(`/admin/projects/${id}/types`, TOKEN, { name: 'News', type_id: 'news' })
    await shop.#ask(`/admin/projects/${id}/types`, TOKEN, { name: 'Offers', type_id: 'offers' })
    await shop.subscribe(account)
    return shop
  }

  async subscribe(account) {
    const path = `/admin/projects/${this.id}/subscribers/eip155:1:${account}`
    await this.#ask(path, TOKEN, {}, 'PUT')
  }

  async notify(title, { body = `About ${title}.`, type = 'news', url, account = this.account } = {}) {
    if ((this.sent += 1) % 20 === 0) await this.bridge.clock.advance({ seconds: 10 })
    const fields = { notification: { type, title, body, url }, accounts: [`eip155:1:${account}`] }
    const answer = await this.#ask(`/${this.id}/notify`, this.secret, fields)
    expect(answer.sent).toHaveLength(1)
  }

  async types() {
    const subscribers = await this.#ask(`/v1/${this.id}/subscribers`, this.secret, { accounts: [`eip155:1:${this.account}`] })
    return Object.values(subscribers).map(({ notification_types: types }) => types.join(' '))
  }

  async #ask(path, token, fields, method = 'POST') {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
    const response = await fetch(this.bridge.url + path, { method, headers, body: JSON.stringify(fields) })
    expect(response.ok, await response.clone().text()).toBe(true)
    return response.json()
  }
}

const titles = (page) => page.locator('[part~=title] bdi')
const row = (page, title) => page.getByRole('button', { name: title })
const badge = (page) => page.locator('[part=badge] [aria-hidden]')
const reads = (page) => page.locator('bridge-inbox').getAttribute('unread')
const status = (page) => page.locator('[part=status]')
const alert = (page) => page.getByRole('alert')

async function signIn(page, wallet = 'Bridge Server test wallet') {
  await page.getByRole('button', { name: `Sign in with ${wallet}` }).click()
  await expect(page.getByText('Signed in as')).toBeVisible()
}

async function openInbox(page, bridge, query = '?project=shop') {
  await page.goto(`${bridge.url}/inbox/${query}`)
}

async function openSignedIn(page, bridge, wallet, query) {
  await wallet.install(page)
  await openInbox(page, bridge, query)
  await signIn(page)
}

/** What the page sends to the server as its token. */
async function bearerOf(page) {
  const { token } = await page.evaluate(() => JSON.parse(Object.values(sessionStorage)[0]))
  return { Authorization: `Bearer ${token}` }
}

async function notificationsOf(page, bridge) {
  const response = await fetch(`${bridge.url}/inbox/notifications`, { headers: await bearerOf(page) })
  return (await response.json()).notifications
}

/** Announces another wallet, made of the first one and changed by `change`, a function in the page. */
async function announceAnother(page, name, change = () => undefined) {
  await page.addInitScript(
    ([name, change]) => {
      const provider = { ...window.ethereum, request: (call) => window.ethereum.request(call) }
      new Function('provider', `(${change})(provider)`)(provider)
      const info = { uuid: crypto.randomUUID(), name, icon: 'data:,', rdns: `org.example.${name.toLowerCase()}` }
      const announce = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: { info, provider } }))
      addEventListener('eip6963:requestProvider', announce)
      announce()
    },
    [name, String(change)]
  )
}

test.beforeEach(({ page }) => {
  page.faults = []
  page.on('pageerror', (error) => page.faults.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) page.faults.push(message.text())
  })
})

test.afterEach(({ page }) => {
  expect(page.faults).toEqual([])
})

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

  await expect(page.getByText('About Second.')).toBeHidden()
  await row(page, 'Unread: Second').click()
  await expect(page.getByText('About Second.')).toBeVisible()
  await expect(badge(page)).toHaveText('1')
  expect(await reads(page)).toBe('1')
  const link = page.getByRole('link', { name: 'Open shop.example' })
  await expect(link).toHaveAttribute('rel', 'noopener noreferrer')
  await expect(link).toHaveAttribute('target', '_blank')
  await expect(row(page, 'Second')).toHaveAttribute('aria-expanded', 'true')
  expect(await page.evaluate(() => window.counts)).toEqual([2, 1])

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
  await page.getByLabel('Offers').check()
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

test('a browser without a wallet says so, and one that comes late is offered', async ({ page, bridge, wallet }) => {
  await openInbox(page, bridge)
  await expect(page.getByText('This browser has no wallet that can sign in.')).toBeVisible()

  await wallet.install(page)

  await expect(page.getByRole('button', { name: 'Sign in with Bridge Server test wallet' })).toBeVisible()
  await expect(page.getByText('This browser has no wallet that can sign in.')).toBeHidden()
})

test('of two wallets a person chooses, and addresses may be spelled without a checksum', async ({ page, bridge, wallet }) => {
  await wallet.install(page)
  await announceAnother(page, 'Lower', (provider) => {
    const { request } = provider
    provider.request = async (call) => {
      const answer = await request(call)
      return Array.isArray(answer) ? answer.map((account) => account.toLowerCase()) : answer
    }
  })
  await openInbox(page, bridge)
  await expect(page.getByRole('button', { name: /^Sign in with/ })).toHaveText([
    'Sign in with Bridge Server test wallet',
    'Sign in with Lower',
  ])

  await signIn(page, 'Lower')

  expect(await page.evaluate(() => document.querySelector('bridge-inbox').account)).toBe(`eip155:31337:${wallet.accounts[0]}`)
})

test('two wallets of one name are told apart', async ({ page, bridge, wallet }) => {
  await wallet.install(page, { name: 'Twin' })
  await announceAnother(page, 'Twin')
  await openInbox(page, bridge)

  await expect(page.getByRole('button', { name: /^Sign in with/ })).toHaveText([
    'Sign in with Twin (dev.bridge-server.test)',
    'Sign in with Twin (org.example.twin)',
  ])
})

test('a rejected signature is no fault, and can be tried again', async ({ page, bridge, wallet }) => {
  await wallet.setRules({ personal_sign: 'reject' })
  await wallet.install(page)
  await openInbox(page, bridge)
  const button = page.getByRole('button', { name: /^Sign in with/ })
  await button.click()
  await expect(alert(page)).toHaveText('The sign-in was rejected in the wallet. Nothing was signed.')
  await expect(button).toBeFocused()

  await wallet.setRules({})
  await signIn(page)
  await expect(alert(page)).toHaveText('')
})

test('a wallet that has not answered yet can be left', async ({ page, bridge, wallet }) => {
  await wallet.setRules({ personal_sign: 'ask' })
  await wallet.install(page)
  await openInbox(page, bridge)
  await page.getByRole('button', { name: /^Sign in with/ }).click()
  await expect(status(page)).toHaveText('Confirm in Bridge Server test wallet…')
  const call = await wallet.nextCall('personal_sign')

  await page.getByRole('button', { name: 'Cancel' }).click()
  await call.approve()

  await expect(page.getByRole('button', { name: /^Sign in with/ })).toBeFocused()
  await expect(page.getByText('Signed in as')).toBeHidden()
})

for (const [code, words] of [
  [-32002, 'The wallet has an open request.'],
  [4900, 'The wallet could not sign in: out of order'],
]) {
  test(`an error ${code} of the wallet is shown`, async ({ page, bridge, wallet }) => {
    await wallet.setRules([`personal_sign=reject:${code}:"out of order"`])
    await wallet.install(page)
    await openInbox(page, bridge)
    await page.getByRole('button', { name: /^Sign in with/ }).click()

    await expect(alert(page)).toContainText(words)
  })
}

test('a wallet without accounts does not sign in', async ({ page, bridge, wallet }) => {
  await wallet.install(page)
  await announceAnother(page, 'Empty', (provider) => (provider.request = async () => []))
  await openInbox(page, bridge)
  await page.getByRole('button', { name: 'Sign in with Empty' }).click()

  await expect(alert(page)).toHaveText('The wallet named no Ethereum account.')
})

test('a signature of another key is refused by the server, in its words', async ({ page, bridge, wallet }) => {
  await wallet.install(page)
  await announceAnother(page, 'Wrong', (provider) => {
    const { request } = provider
    const other = '0x' + '22'.repeat(20)
    provider.request = async (call) => (call.method === 'eth_requestAccounts' ? [other] : call.method === 'personal_sign'
      ? request({ ...call, params: [call.params[0], (await request({ method: 'eth_accounts' }))[0] ] }) : request(call)) // prettier-ignore
  })
  await openInbox(page, bridge)
  await page.evaluate(() => window.ethereum.request({ method: 'eth_requestAccounts' }))
  await page.getByRole('button', { name: 'Sign in with Wrong' }).click()

  await expect(alert(page)).toContainText('which is not the account that it names')
})

test('another chain changes nothing, and another account ends the sign-in', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await shop.notify('Private')
  await openSignedIn(page, bridge, wallet)
  await expect(titles(page)).toHaveText(['Private'])
  const [session] = await wallet.sessions()
  await page.evaluate(() => {
    window.heard = []
    for (const name of ['chainChanged', 'accountsChanged']) window.ethereum.on(name, () => window.heard.push(name))
  })

  await session.switchChain(10)
  await expect.poll(() => page.evaluate(() => window.heard)).toContain('chainChanged')
  await expect(titles(page)).toHaveText(['Private'])

  await session.disconnect()
  await expect(status(page)).toHaveText('The wallet has changed to another account. Sign in again to read its notifications.')
  await expect(titles(page)).toHaveCount(0)
  expect(await page.evaluate(() => sessionStorage.length)).toBe(0)
})

test('a wallet that changed its account while the page was loaded again ends the sign-in', async ({ page, bridge, wallet }) => {
  await openSignedIn(page, bridge, wallet)
  await page.addInitScript(() => {
    const { request } = window.ethereum
    window.ethereum.request = async (call) => (call.method === 'eth_accounts' ? ['0x' + '22'.repeat(20)] : request(call))
  })

  await page.reload()

  await expect(status(page)).toContainText('The wallet has changed to another account.')
})

test('signing out forgets the token, here and on the server', async ({ page, bridge, wallet }) => {
  await openSignedIn(page, bridge, wallet)
  expect(await page.evaluate(() => [sessionStorage.length, localStorage.length, document.cookie])).toEqual([1, 0, ''])
  const headers = await bearerOf(page)
  const ended = page.waitForResponse('**/inbox/logout')

  await page.getByRole('button', { name: 'Sign out' }).click()

  await expect(status(page)).toHaveText('You are signed out.')
  await ended
  expect(await page.evaluate(() => sessionStorage.length)).toBe(0)
  expect((await fetch(`${bridge.url}/inbox/notifications`, { headers })).status).toBe(401)
  await expect(page.getByRole('heading', { name: 'Notifications' })).toBeFocused()
})

test('a token that the server no longer takes ends the sign-in', async ({ page, bridge, wallet }) => {
  await openSignedIn(page, bridge, wallet)
  await fetch(`${bridge.url}/inbox/logout`, { method: 'POST', headers: await bearerOf(page) })

  await expect(status(page)).toHaveText('Your sign-in has ended. Sign in again.')
  await expect(page.getByRole('button', { name: /^Sign in with/ })).toBeVisible()
})

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
  const turn = (state) =>
    page.evaluate((state) => {
      Object.defineProperty(document, 'visibilityState', { value: state, configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))
    }, state)
  const ended = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/stream'))

  await turn('hidden')
  await ended
  await shop.notify('While it was hidden')
  await expect(titles(page)).toHaveCount(0)
  await turn('visible')

  await expect(titles(page)).toHaveText(['While it was hidden'])
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

  for (const state of ['hidden', 'visible']) {
    await page.evaluate((state) => {
      Object.defineProperty(document, 'visibilityState', { value: state, configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))
    }, state)
  }

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
  await expect(page.getByText('About Stubborn.')).toBeVisible()
})

test('texts of strangers are texts, and only safe URLs are links', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0], { name: MARKUP })
  await shop.notify(MARKUP, { body: MARKUP, url: 'myapp://open' })
  await page.route('**/inbox/notifications?*', async (route) => {
    const response = await route.fetch()
    const answer = await response.json()
    const [first] = answer.notifications
    if (first) answer.notifications.push({ ...first, id: '0', title: 'Evil', url: ' JavaScript:hacked=1' })
    await route.fulfill({ response, json: answer })
  })
  await openSignedIn(page, bridge, wallet, '')
  await page.getByRole('button', { name: 'Subscriptions' }).click()
  for (const title of [MARKUP, 'Evil']) await row(page, title).click()

  await expect(titles(page)).toHaveText([MARKUP, 'Evil'])
  await expect(page.locator('[part=body] p').first()).toHaveText(MARKUP)
  await expect(page.locator('[part=settings]')).toContainText(MARKUP)
  await expect(page.getByRole('link')).toHaveCount(1)
  const link = page.getByRole('link', { name: 'Open myapp:' })
  expect(await link.evaluate((each) => [each.href, each.target])).toEqual(['myapp://open', ''])
  expect(await page.evaluate(() => window.hacked)).toBeUndefined()
})

test('the keyboard alone signs in, opens a notification, and marks all as read', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await shop.notify('First')
  await shop.notify('Second')
  await wallet.install(page)
  await openInbox(page, bridge)
  await expect(page.getByRole('button', { name: /^Sign in with/ })).toBeVisible()
  const press = async (name) => {
    for (let steps = 0; steps < 20; steps += 1) {
      await page.keyboard.press('Tab')
      const focused = await page.evaluate(() => document.activeElement.shadowRoot?.activeElement?.textContent)
      if (focused === name) return page.keyboard.press('Enter')
    }
    throw new Error(`${name} was not reached`)
  }

  await press('Sign in with Bridge Server test wallet')
  await expect(titles(page)).toHaveText(['Second', 'First'])
  await press('Unread: Second')
  await expect(page.getByText('About Second.')).toBeVisible()
  await expect(row(page, 'Second')).toBeFocused()
  await shop.notify('Third')
  await expect(titles(page)).toHaveText(['Third', 'Second', 'First'])
  await expect(row(page, 'Second')).toBeFocused()
  await page.keyboard.press('Tab')
  await expect(row(page, 'First')).toBeFocused()
  await page.getByRole('heading', { name: 'Notifications' }).focus()
  await press('Mark all as read')
  await expect(badge(page)).toBeHidden()
})

for (const scheme of ['light', 'dark']) {
  for (const width of [1280, 320]) {
    test(`axe-core finds no serious fault, and nothing scrolls sideways: ${scheme}, ${width}`, async ({ page, bridge, wallet }) => {
      const shop = await Shop.open(bridge, wallet.accounts[0])
      await shop.notify('W'.repeat(64), { body: 'W'.repeat(255), url: 'https://shop.example/' })
      await shop.notify('Read later')
      await page.emulateMedia({ colorScheme: scheme })
      await page.setViewportSize({ width, height: 800 })
      await wallet.setRules({ personal_sign: 'reject' })
      await wallet.install(page)
      await openInbox(page, bridge)
      await page.getByRole('button', { name: /^Sign in with/ }).click()
      await expect(alert(page)).not.toHaveText('')
      await expectNoFault(page)

      await wallet.setRules({})
      await signIn(page)
      await row(page, 'WWW').click()
      await page.getByRole('button', { name: 'Subscriptions' }).click()
      await expect(page.getByLabel('Offers')).toBeVisible()
      await expectNoFault(page)
    })
  }
}

async function expectNoFault(page) {
  await page.evaluate(axe)
  const found = await page.evaluate(async () =>
    (await axe.run()).violations
      .filter(({ impact }) => ['serious', 'critical'].includes(impact))
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
  )
  expect(found).toEqual([])
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0)
}

test.describe('in a page of another origin', () => {
  const embed = (page, bridge, markup, headers = {}) =>
    page.route(`${SHOP}/**`, (route) =>
      route.fulfill({
        contentType: 'text/html',
        headers,
        body: `<!doctype html><html lang="de"><script type="module" src="${bridge.url}/inbox/widget.js"></script>${markup}</html>`,
      })
    )

  test('a strict policy is enough', async ({ page, bridge, wallet }) => {
    const shop = await Shop.open(bridge, wallet.accounts[0])
    await shop.notify('From afar')
    const policy = `default-src 'none'; script-src ${bridge.url}; connect-src ${bridge.url}; require-trusted-types-for 'script'; trusted-types 'none'`
    await embed(page, bridge, '<bridge-inbox project="shop"></bridge-inbox>', {
      'Content-Security-Policy': policy,
      'Cross-Origin-Embedder-Policy': 'require-corp',
    })
    await wallet.install(page)
    await page.goto(`${SHOP}/account`)
    await signIn(page)

    await expect(titles(page)).toHaveText(['From afar'])
    await row(page, 'From afar').click()
    await expect(badge(page)).toBeHidden()
    const looks = await page.getByRole('button', { name: 'Sign out' }).evaluate((button) => getComputedStyle(button).cursor)
    expect(looks).toBe('pointer')
  })

  test('the app chooses server, project, texts and looks, and moves it', async ({ page, bridge, wallet }) => {
    const shop = await Shop.open(bridge, wallet.accounts[0])
    const bakery = await Shop.open(bridge, wallet.accounts[0], { id: 'bakery', name: 'Bakery' })
    await shop.notify('Shoes')
    await bakery.notify('Bread')
    await page.clock.install({ time: Date.now() })
    await embed(page, bridge, `<style>bridge-inbox { --bridge-inbox-accent: rgb(1, 2, 3) } bridge-inbox::part(badge) { font-size: 30px }</style>
      <bridge-inbox project="shop" server="${bridge.url}/"></bridge-inbox><div id="elsewhere"></div>`)
    await wallet.install(page)
    await page.goto(SHOP)
    await page.evaluate(() => {
      document.querySelector('bridge-inbox').texts = { heading: 'Mitteilungen', signIn: 'Anmelden mit {wallet}' }
    })
    await page.getByRole('button', { name: 'Anmelden mit Bridge Server test wallet' }).click()
    await expect(page.getByRole('heading', { name: 'Mitteilungen' })).toBeVisible()
    await expect(titles(page)).toHaveText(['Shoes'])
    const looks = await page.locator('[part=badge]').evaluate((each) => [getComputedStyle(each).backgroundColor, getComputedStyle(each).fontSize])
    expect(looks).toEqual(['rgb(1, 2, 3)', '30px'])
    await expect(page.locator('time')).toHaveText(/^\d{2}\.\d{2}\.\d{4}, \d{2}:\d{2}$/)

    await page.evaluate(() => document.querySelector('bridge-inbox').setAttribute('project', 'bakery'))
    await expect(titles(page)).toHaveText(['Bread'])
    await page.evaluate(() => document.querySelector('#elsewhere').append(document.querySelector('bridge-inbox')))
    await expect(titles(page)).toHaveText(['Bread'])
    await page.evaluate(() => document.querySelector('bridge-inbox').remove())
    await bakery.notify('Cake')
    await expect(page.locator('bridge-inbox')).toHaveCount(0)
  })
})
