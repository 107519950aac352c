import type { Bridge, BridgeOptions } from './index.js'

export function useBridge(options?: BridgeOptions): Bridge
