import type { BridgeOptions, WalletOptions } from './index.js'

/** Where the server of the whole run is; `connectBridge` takes it. */
export interface ProvidedBridge {
  url: string
  v07Url: string
  rpcUrl: string
  testToken: string
  accounts: string[]
}

declare module 'vitest' {
  export interface ProvidedContext {
    bridge: ProvidedBridge
    bridgeOptions: BridgeOptions
    walletOptions: WalletOptions
  }
}

interface GlobalProject {
  readonly config: { readonly provide?: Partial<Record<'bridgeOptions', BridgeOptions>> }
  provide(name: 'bridge', value: ProvidedBridge): void
}

export default function setup(project: GlobalProject): Promise<() => Promise<void>>
