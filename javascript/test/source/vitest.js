// Vitest: `test: { globalSetup: '@bridge-server/test/vitest' }`, then `inject('bridge')` in a test's file.

import { startBridge } from './bridge.js'

/** One server for the whole run; its whereabouts are provided as `bridge`, for `connectBridge`. */
export default async function setup(project) {
  const bridge = await startBridge({ devAccounts: true, ...optionsOf(project) })
  const { url, v07Url, rpcUrl, testToken, accounts } = bridge
  project.provide('bridge', { url, v07Url, rpcUrl, testToken, accounts })
  return () => bridge.stop()
}

function optionsOf(project) {
  return project.config?.env?.BRIDGE_SERVER_OPTIONS ? JSON.parse(project.config.env.BRIDGE_SERVER_OPTIONS) : {}
}
