// Vitest: `test: { globalSetup: '@bridge-server/test/vitest' }`, then `inject('bridge')` in a test's file.

import { startBridge } from './bridge.js'

/**
 * One server for the whole run. Its addresses and its token are provided as `bridge`, for `connectBridge`.
 * Its options, as for `startBridge`, are `bridgeOptions` in `provide` of Vitest's configuration.
 */
export default async function setup(project) {
  const bridge = await startBridge({ devAccounts: true, ...project.config.provide?.bridgeOptions })
  const { url, v07Url, rpcUrl, testToken, accounts } = bridge
  project.provide('bridge', { url, v07Url, rpcUrl, testToken, accounts })
  return () => bridge.stop()
}
