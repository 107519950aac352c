// The example of docs/notify.md, whose files and policy stand beside this one, under the name of the real server.

import { readFileSync } from 'node:fs'
import { expect, SHOP, Shop, signIn, test, titles } from './shop.js'

const SERVER = 'https://bridge.example.org'

test('the example counts unread notifications in its title, under its policy', async ({ page, bridge, wallet }) => {
  const shown = (name) => readFileSync(name, 'utf8').replaceAll(SERVER, bridge.url)
  const [field, policy] = shown('policy.txt').trim().split(': ')
  await page.route(`${SHOP}/**`, (route) => {
    const name = new URL(route.request().url()).pathname.slice(1)
    const contentType = { html: 'text/html', js: 'text/javascript', css: 'text/css' }[name.split('.')[1]]
    return route.fulfill({ contentType, headers: { [field]: policy }, body: shown(`page-${name}`) })
  })
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await shop.notify('First')
  await wallet.install(page)
  await page.goto(`${SHOP}/shop.html`)
  await expect(page).toHaveTitle('Shop')

  await signIn(page)

  await expect(titles(page)).toHaveText(['First'])
  await expect(page).toHaveTitle('(1) Shop')
  const looks = await page.locator('[part=badge]').evaluate((each) => getComputedStyle(each).backgroundColor)
  expect(looks).toBe('rgb(185, 28, 28)')
  const menu = page.getByRole('button', { name: 'Menu' })
  if (await menu.isVisible()) await menu.click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await expect(page).toHaveTitle('Shop')
})
