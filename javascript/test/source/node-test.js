// node:test: `const bridge = useBridge()` at the top of a file or of a `describe`.

import { after, before, beforeEach } from 'node:test'

import { startBridge } from './bridge.js'

/**
 * One server for the tests of this file or suite, emptied before each of them. The value stands for the server
 * from the first test on. The options are those of `startBridge`.
 */
export function useBridge(options = {}) {
  let bridge
  before(async () => {
    bridge = await startBridge(options)
  })
  beforeEach(() => bridge.reset())
  after(() => bridge?.stop())
  return new Proxy({}, { get: (_, member) => memberOf(bridge, member) })
}

function memberOf(bridge, member) {
  if (bridge === undefined) throw new Error('The server is there from the first test on, not while tests are described')
  const value = bridge[member]
  return typeof value === 'function' ? value.bind(bridge) : value
}
