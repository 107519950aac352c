// Vitest: `import { test, expect } from '@bridge-server/test/vitest-fixtures'`.

import { expect, test as plain } from 'vitest'

import { startBridge } from './bridge.js'
import { Wallets } from './wallets.js'

/**
 * `bridge`: one server for each file, emptied before each test. `wallet`: a headless wallet, which has no
 * sessions and no calls when a test begins.
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
  walletsOfFile: [({ bridgeOfFile }, use) => use(new Wallets(bridgeOfFile)), { scope: 'file' }],
  wallet: async ({ bridge: _, walletsOfFile, walletOptions }, use) => {
    const wallet = await walletsOfFile.with(walletOptions)
    await use(wallet)
    await wallet.reset()
  },
})

export { expect }
