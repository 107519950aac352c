import type { TestAPI } from 'vitest'
import type { Bridge, BridgeOptions, Wallet, WalletOptions } from './index.js'

export const test: TestAPI<{
  bridgeOptions: BridgeOptions
  walletOptions: WalletOptions
  bridge: Bridge
  wallet: Wallet
}>
export { expect } from 'vitest'
