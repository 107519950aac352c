// Playwright: `import { test, expect } from '@bridge-server/test/playwright'`.

import { expect, test as plain } from '@playwright/test'

import { startBridge } from './bridge.js'
import { Wallets } from './wallets.js'

const START_MILLISECONDS = 60_000

/**
 * `bridge`: one server for each worker, emptied before each test. `wallet`: a headless wallet, which has no
 * sessions and no calls when a test begins.
 * Options for `test.use` and for `use` of Playwright's configuration: `bridgeOptions` as for `startBridge`,
 * `walletOptions` as for `startWallet`. The report of a failed test has the server's last requests and log.
 */
export const test = plain.extend({
  bridgeOptions: [{}, { option: true, scope: 'worker' }],
  walletOptions: [{}, { option: true }],
  bridgeOfWorker: [
    async ({ bridgeOptions }, use) => {
      const bridge = await startBridge({ devAccounts: true, ...bridgeOptions })
      await use(bridge)
      await bridge.stop()
    },
    { scope: 'worker', timeout: START_MILLISECONDS },
  ],
  bridge: async ({ bridgeOfWorker }, use, testInfo) => {
    await bridgeOfWorker.reset()
    await use(bridgeOfWorker)
    if (testInfo.status !== testInfo.expectedStatus) await attachRecords(bridgeOfWorker, testInfo)
  },
  walletsOfWorker: [({ bridgeOfWorker }, use) => use(new Wallets(bridgeOfWorker)), { scope: 'worker' }],
  wallet: [
    async ({ bridge: _, walletsOfWorker, walletOptions }, use) => {
      const wallet = await walletsOfWorker.with(walletOptions)
      await use(wallet)
      await wallet.reset()
    },
    { timeout: START_MILLISECONDS },
  ],
})

async function attachRecords(bridge, testInfo) {
  const traffic = await bridge.traffic().catch((error) => [error.message])
  const lines = traffic.map((request) => JSON.stringify(request)).join('\n')
  await testInfo.attach('requests of the bridge', { body: lines, contentType: 'text/plain' })
  await testInfo.attach('log of the bridge', { body: bridge.log, contentType: 'text/plain' })
}

export { expect }
