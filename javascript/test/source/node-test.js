// node:test: `const bridge = useBridge()` at the top of a file or of a `describe`.

import { after, before, beforeEach } from 'node:test'

import { bridgeByHooks } from './use-bridge.js'

/**
 * One server for the tests of this file or suite, emptied before each of them. The value stands for the
 * server from the first test on. The options are those of `startBridge`; without them it has the development
 * accounts.
 */
export function useBridge(options = {}) {
  return bridgeByHooks({ before, beforeEach, after }, { devAccounts: true, ...options })
}
