// Jest: `globalSetup: '@bridge-server/test/jest'` and `globalTeardown: '@bridge-server/test/jest-teardown'`
// for one server for the whole run, or `const bridge = useBridge()` in a file for one of its own.

import { startBridge } from './bridge.js'
import { bridgeByHooks } from './use-bridge.js'

const START_MILLISECONDS = 60_000

let bridge

/**
 * One server for the whole run; tests reach it with `connectBridge()`, by BRIDGE_URL and BRIDGE_TEST_TOKEN.
 * Its options, as for `startBridge`, are `bridgeOptions` in `globals` of Jest's configuration.
 */
export default async function setup(_globalConfig, projectConfig) {
  bridge = await startBridge({ devAccounts: true, ...projectConfig?.globals?.bridgeOptions })
  process.env.BRIDGE_URL = bridge.url
  process.env.BRIDGE_RPC_URL = bridge.rpcUrl
  process.env.BRIDGE_TEST_TOKEN = bridge.testToken
}

/** Ends the server of `setup`. */
export async function teardown() {
  await bridge?.stop()
}

/**
 * One server for the tests of this file or suite, emptied before each of them. The value stands for the
 * server from the first test on. The options are those of `startBridge`; without them it has the development
 * accounts.
 */
export function useBridge(options = {}) {
  const { afterAll: after, beforeAll, beforeEach } = globalThis
  const before = (work) => beforeAll(work, START_MILLISECONDS)
  return bridgeByHooks({ before, beforeEach, after }, { devAccounts: true, ...options })
}
