// Playwright: `import { test, expect } from '@bridge-server/test/playwright'`.

import { expect, test as base } from '@playwright/test'

import { startBridge } from './bridge.js'

/**
 * `bridge`: one server for each worker, emptied before each test. `wallet`: a headless wallet for each test.
 * Options for `test.use`: `bridgeOptions` as for `startBridge`, `walletOptions` as for `startWallet`.
 */
export const test = base.extend({
  bridgeOptions: [{ devAccounts: true }, { option: true, scope: 'worker' }],
  walletOptions: [{}, { option: true }],
  bridgeOfWorker: [
    async ({ bridgeOptions }, use) => {
      const bridge = await startBridge(bridgeOptions)
      await use(bridge)
      await bridge.stop()
    },
    { scope: 'worker' },
  ],
  bridge: async ({ bridgeOfWorker }, use) => {
    await bridgeOfWorker.reset()
    await use(bridgeOfWorker)
  },
  wallet: async ({ bridge, walletOptions }, use) => {
    const wallet = await bridge.wallet(walletOptions)
    await use(wallet)
    await wallet.stop()
  },
})

export { expect }
