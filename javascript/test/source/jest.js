// Jest: `globalSetup: '@bridge-server/test/jest'` and `globalTeardown: '@bridge-server/test/jest-teardown'`.

import { startBridge } from './bridge.js'

const KEPT = Symbol.for('@bridge-server/test/jest')

/** One server for the whole run; tests reach it with `connectBridge()`, by BRIDGE_URL and BRIDGE_TEST_TOKEN. */
export default async function setup(globalConfig) {
  const bridge = await startBridge({ devAccounts: true, ...(globalConfig?.globals?.bridgeServer ?? {}) })
  globalThis[KEPT] = bridge
  process.env.BRIDGE_URL = bridge.url
  process.env.BRIDGE_RPC_URL = bridge.rpcUrl
  process.env.BRIDGE_TEST_TOKEN = bridge.testToken
}

/** Ends the server of `setup`. */
export async function teardown() {
  await globalThis[KEPT]?.stop()
}
