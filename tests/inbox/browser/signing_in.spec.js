// Signing in and out, with one wallet, with two, and with none.

import { announceAnother, alert, bearerOf, expect, openInbox, openSignedIn, Shop, signIn, status, test, titles } from './shop.js'

test('a browser without a wallet says so, and one that comes late is offered', async ({ page, bridge, wallet }) => {
  await openInbox(page, bridge)
  await expect(page.getByRole('button', { name: 'Sign in as development account 0' })).toBeVisible()
  await page.evaluate(() => document.querySelector('bridge-inbox').removeAttribute('development'))
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

  await expect.poll(() => page.evaluate(() => document.querySelector('bridge-inbox').account)).toBe(`eip155:31337:${wallet.accounts[0]}`)
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
  const call = await wallet.nextCall('personal_sign', { timeout: 60 })

  await page.getByRole('button', { name: 'Cancel' }).click()
  await call.approve()

  await expect(page.getByRole('button', { name: /^Sign in with/ })).toBeFocused()
  await expect(page.getByText('Signed in as')).toBeHidden()
})

test('an error of the wallet is shown', async ({ page, bridge, wallet }) => {
  await wallet.install(page)
  await openInbox(page, bridge)
  for (const [code, words] of [
    [-32002, 'The wallet has an open request.'],
    [4900, 'The wallet could not sign in: out of order'],
  ]) {
    await wallet.setRules([`personal_sign=reject:${code}:"out of order"`])
    await page.getByRole('button', { name: /^Sign in with/ }).click()

    await expect(alert(page)).toContainText(words)
  }
})

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
  await expect.poll(() => page.evaluate(() => sessionStorage.length)).toBe(0)
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
  await expect.poll(() => page.evaluate(() => sessionStorage.length)).toBe(0)
  expect((await fetch(`${bridge.url}/inbox/notifications`, { headers })).status).toBe(401)
  await expect(page.getByRole('heading', { name: 'Notifications' })).toBeFocused()
})

test('a token that the server no longer takes ends the sign-in', async ({ page, bridge, wallet }) => {
  await openSignedIn(page, bridge, wallet)
  await fetch(`${bridge.url}/inbox/logout`, { method: 'POST', headers: await bearerOf(page) })

  await expect(status(page)).toHaveText('Your sign-in has ended. Sign in again.')
  await expect(page.getByRole('button', { name: /^Sign in with/ })).toBeVisible()
})
