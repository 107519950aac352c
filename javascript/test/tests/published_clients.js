// The published client of generation 1.x, where the project's tests have installed it.

import { createRequire } from 'node:module'

const require = createRequire(new URL('../../../tests/node/package.json', import.meta.url))

function loaded(name) {
  try {
    return require(name)
  } catch {
    return undefined
  }
}

const Connector = loaded('@walletconnect/client')?.default

export const withoutClient = Connector ? false : 'needs the packages of tests/node'

/** A dapp that shows its URI. */
export async function newDapp(bridge) {
  const clientMeta = { name: 'Example', description: '', url: 'https://dapp.example', icons: [] }
  const dapp = new Connector({ bridge: bridge.url, clientMeta })
  const connected = new Promise((resolve) => dapp.on('connect', () => resolve()))
  await dapp.createSession()
  return { dapp, uri: dapp.uri, connected }
}
