import type {
  Expect,
  TestType,
  PlaywrightTestArgs,
  PlaywrightTestOptions,
  PlaywrightWorkerArgs,
  PlaywrightWorkerOptions,
} from '@playwright/test'
import type { Bridge, BridgeOptions, Wallet, WalletOptions } from './index.js'

export const test: TestType<
  PlaywrightTestArgs &
    PlaywrightTestOptions & { bridge: Bridge; wallet: Wallet; walletOptions: WalletOptions },
  PlaywrightWorkerArgs & PlaywrightWorkerOptions & { bridgeOptions: BridgeOptions }
>
export const expect: Expect<{}>
