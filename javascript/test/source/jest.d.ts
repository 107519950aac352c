import type { Bridge, BridgeOptions } from './index.js'

export default function setup(globalConfig?: unknown, projectConfig?: unknown): Promise<void>
export function teardown(): Promise<void>
export function useBridge(options?: BridgeOptions): Bridge
