// The web component in pages of another origin.

import { badge, expect, row, SHOP, Shop, signIn, test, titles } from './shop.js'

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
  await expect(page.locator('time')).toHaveText(/^jetzt$|Sekunde|Minute/)

  await page.evaluate(() => document.querySelector('bridge-inbox').setAttribute('project', 'bakery'))
  await expect(titles(page)).toHaveText(['Bread'])
  await page.evaluate(() => document.querySelector('#elsewhere').append(document.querySelector('bridge-inbox')))
  await expect(titles(page)).toHaveText(['Bread'])
  await page.evaluate(() => document.querySelector('bridge-inbox').remove())
  await bakery.notify('Cake')
  await expect(page.locator('bridge-inbox')).toHaveCount(0)
})
