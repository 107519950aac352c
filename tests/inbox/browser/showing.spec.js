// What is seen, and how: texts of strangers, the keyboard, what axe-core finds.

import { expectNoFault, turnTo } from './page_check.js'
import { alert, badge, expect, openInbox, openSignedIn, row, Shop, signIn, test, titles } from './shop.js'

const MARKUP = '<img src=x onerror="hacked=1">'

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
  await expect(page.locator('[part=body]', { hasText: 'About Second.' })).toBeVisible()
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

test('the inbox has no fault, wide or narrow', async ({ page, bridge, wallet }) => {
  const [wide, ...narrow] = [['light', 1280], ['dark', 390], ['light', 320]]
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await shop.notify('W'.repeat(64), { body: 'W'.repeat(255), url: 'https://shop.example/' })
  await shop.notify('Read later')
  await wallet.setRules({ personal_sign: 'reject' })
  await wallet.install(page)
  await openInbox(page, bridge)
  await page.getByRole('button', { name: /^Sign in with/ }).click()
  await expect(alert(page)).not.toHaveText('')
  await expectNoFault(page, 'signed out', { looks: [...narrow, wide] })

  await wallet.setRules({})
  await signIn(page)
  await row(page, 'WWW').click()
  await expect(page.locator('[part=preview]').first()).toHaveText('About Read later.')
  const menu = page.getByRole('button', { name: 'Menu' })
  const choices = page.getByRole('button', { name: 'Subscriptions' })
  await expect(menu).toBeHidden()
  await choices.click()
  await expect(page.getByLabel('Offers')).toBeVisible()
  await expectNoFault(page, 'signed in', { looks: [wide] })
  await choices.click()
  await expect(page.getByLabel('Offers')).toBeHidden()

  await turnTo(page, narrow[0])
  await menu.click()
  await choices.click()
  await expect(page.getByLabel('Offers')).toBeVisible()
  await expectNoFault(page, 'signed in', { looks: narrow })
})

test('a time says how long ago it was, and grows old', async ({ page, bridge, wallet }) => {
  const shop = await Shop.open(bridge, wallet.accounts[0])
  await shop.notify('Just sent')
  await page.clock.install()
  await openSignedIn(page, bridge, wallet)
  const time = page.getByRole('listitem').locator('time')
  await page.clock.fastForward(3 * 60_000)
  await expect(time).toHaveText('3 minutes ago')
  await expect(time).toHaveAttribute('title', /20\d\d/)
  await page.clock.fastForward(9 * 86_400_000)
  await expect(time).toHaveText(/^[A-Z][a-z]+ \d+, 20\d\d$/)
})
