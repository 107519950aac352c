// An app with a backend, and the account that reads its notifications in a browser.

import { expect, test as ofKit } from '@bridge-server/test/playwright'

const TOKEN = 'of-the-operator'
/** The origin of the app's pages. */
export const SHOP = 'http://shop.localhost'
const settings = { admin_token: TOKEN, inbox_origins: [SHOP], account_burst: 1000 }

/** The test of the kit, with a server of these settings. A page must neither throw nor break its policy. */
export const test = ofKit.extend({
  bridgeOptions: [{ settings }, { option: true, scope: 'worker' }],
  page: async ({ page }, use) => {
    const faults = []
    page.on('pageerror', (error) => faults.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text())
    })
    await use(page)
    expect(faults).toEqual([])
  },
})
export { expect }

/** The backend of a project with the types news and offers; `account` is subscribed. */
export class Shop {
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

export const titles = (page) => page.locator('[part~=title] bdi')
export const row = (page, title) => page.getByRole('button', { name: title })
export const badge = (page) => page.locator('[part=badge] [aria-hidden]')
export const reads = (page) => page.locator('bridge-inbox').getAttribute('unread')
export const status = (page) => page.locator('[part=status]')
export const alert = (page) => page.getByRole('alert')

export async function signIn(page, wallet = 'Bridge Server test wallet') {
  await page.getByRole('button', { name: `Sign in with ${wallet}` }).click()
  await expect(page.getByText('Signed in as')).toBeVisible()
}

export async function openInbox(page, bridge, query = '?project=shop') {
  await page.goto(`${bridge.url}/inbox/${query}`)
}

export async function openSignedIn(page, bridge, wallet, query) {
  await wallet.install(page)
  await openInbox(page, bridge, query)
  await signIn(page)
}

/** What the page sends to the server as its token. */
export async function bearerOf(page) {
  const { token } = await page.evaluate(() => JSON.parse(Object.values(sessionStorage)[0]))
  return { Authorization: `Bearer ${token}` }
}

export async function notificationsOf(page, bridge) {
  const response = await fetch(`${bridge.url}/inbox/notifications`, { headers: await bearerOf(page) })
  return (await response.json()).notifications
}

/** Announces another wallet, made of the first one and changed by `change`, a function in the page. */
export async function announceAnother(page, name, change = () => undefined) {
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

/** The page is hidden or visible from now on, as when a person changes to another tab and back. */
export async function turn(page, state) {
  await page.evaluate((state) => {
    Object.defineProperty(document, 'visibilityState', { value: state, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  }, state)
}
