// One server for the tests of a file, by the hooks that test runners share.

import { startBridge } from './bridge.js'

/** Registers the hooks; the value stands for the server from the first test on. */
export function bridgeByHooks({ before, beforeEach, after }, options) {
  let bridge
  before(async () => {
    bridge = await startBridge(options)
  })
  beforeEach(() => bridge.reset())
  after(() => bridge?.stop())
  return new Proxy({}, { get: (_, member) => memberOf(bridge, member) })
}

function memberOf(bridge, member) {
  if (bridge === undefined)
    throw new Error('The server is there from the first test on, not while tests are described')
  const value = bridge[member]
  return typeof value === 'function' ? value.bind(bridge) : value
}
