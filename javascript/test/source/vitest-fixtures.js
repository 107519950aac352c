// Vitest: `import { test, expect } from '@bridge-server/test/vitest-fixtures'`.

import { expect, test as plain } from 'vitest'

import { startBridge } from './bridge.js'

/**
 * `bridge`: one server for each file, emptied before each test. `wallet`: a headless wallet for each test.
 * Options, in `provide` of Vitest's configuration or by `test.extend`: `bridgeOptions` as for `startBridge`,
 * `walletOptions` as for `startWallet`.
 */
export const test = plain.extend({
  bridgeOptions: [{}, { injected: true, scope: 'file' }],
  walletOptions: [{}, { injected: true }],
  bridgeOfFile: [
    async ({ bridgeOptions }, use) => {
      const bridge = await startBridge({ devAccounts: true, ...bridgeOptions })
      await use(bridge)
      await bridge.stop()
    },
    { scope: 'file' },
  ],
  bridge: async ({ bridgeOfFile }, use) => {
    await bridgeOfFile.reset()
    await use(bridgeOfFile)
  },
  wallet: async ({ bridge, walletOptions }, use) => {
    const wallet = await bridge.wallet(walletOptions)
    await use(wallet)
    await wallet.stop()
  },
})

export { expect }
