// Run by Playwright: the provider in a page.

import { expect, test } from '@bridge-server/test/playwright'

const DAPP = 'http://dapp.localhost/'

test.beforeEach(async ({ page, wallet }) => {
  await page.route(`${DAPP}**`, (route) =>
    route.fulfill({ contentType: 'text/html', body: '<h1>A dapp</h1>' })
  )
  await page.goto(DAPP)
  await wallet.install(page)
})

const connect = (page) => page.evaluate(() => ethereum.request({ method: 'eth_requestAccounts' }))

test('a page that was open before finds the wallet by EIP-6963', async ({ page, wallet }) => {
  const found = await page.evaluate(() => {
    const announced = []
    addEventListener('eip6963:announceProvider', ({ detail }) => announced.push(detail))
    dispatchEvent(new Event('eip6963:requestProvider'))
    return announced.map(({ info, provider }) => ({ ...info, isTheSame: provider === window.ethereum }))
  })

  expect(found).toHaveLength(1)
  expect(found[0]).toMatchObject({ name: 'Bridge Server test wallet', isTheSame: true })
  expect(await connect(page)).toEqual(wallet.accounts)
})

test('what the wallet changes is an event in the page', async ({ page, wallet }) => {
  await connect(page)
  await page.evaluate(() => {
    window.heard = []
    for (const name of ['accountsChanged', 'chainChanged', 'disconnect']) {
      ethereum.on(name, (value) => window.heard.push(name, value))
    }
  })
  const [session] = await wallet.sessions()

  await session.switchChain(10)
  await session.disconnect()

  await expect
    .poll(() => page.evaluate(() => window.heard.slice(0, 5)))
    .toEqual(['chainChanged', '0xa', 'accountsChanged', [], 'disconnect'])
})

test('an error has the code and the words of the rule', async ({ page, wallet }) => {
  await wallet.setRules(['personal_sign@http://dapp.localhost=reject:4001:"not today"'])
  const [account] = await connect(page)

  const refused = await page.evaluate(async (from) => {
    const failed = (error) => [error.code, error.message]
    return ethereum.request({ method: 'personal_sign', params: ['0x68', from] }).catch(failed)
  }, account)

  expect(refused).toEqual([4001, 'not today'])
})

test.describe('with options', () => {
  test.use({ walletOptions: { session: 'reject' } })

  test('a session is refused', async ({ page }) => {
    const code = await page.evaluate(() =>
      ethereum.request({ method: 'eth_requestAccounts' }).catch((error) => error.code)
    )

    expect(code).toBe(4001)
  })
})
