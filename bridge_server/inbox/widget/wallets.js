// Wallets in the browser (EIP-6963, EIP-1193), and the message that signs in (EIP-4361).

import { checksummed, hexOf } from './address.js'

export const USER_REJECTED = 4001
export const REQUEST_PENDING = -32002

/** The wallet has named no Ethereum account. */
export class NoAccountError extends Error {}

/** The wallets that announce themselves, in the order in which they did. */
export class Wallets {
  #found = new Map()
  #changed
  #announced = ({ detail }) => this.#add(detail)

  constructor(changed) {
    this.#changed = changed
  }

  get all() {
    return [...this.#found.values()]
  }

  listen() {
    window.addEventListener('eip6963:announceProvider', this.#announced)
    window.dispatchEvent(new Event('eip6963:requestProvider'))
  }

  stop() {
    window.removeEventListener('eip6963:announceProvider', this.#announced)
  }

  #add(detail) {
    const { uuid, name, rdns } = detail?.info ?? {}
    if (!uuid || typeof detail.provider?.request !== 'function' || this.#found.has(uuid)) return
    this.#found.set(uuid, { name: String(name || rdns || 'wallet'), rdns, provider: detail.provider })
    this.#changed()
  }
}

/** The message that the account signs (EIP-4361). */
function signInMessage({ address, chainId, nonce, statement }) {
  return [
    `${location.host} wants you to sign in with your Ethereum account:`,
    checksummed(address),
    '',
    statement,
    '',
    `URI: ${location.origin}`,
    'Version: 1',
    `Chain ID: ${BigInt(chainId)}`,
    `Nonce: ${nonce}`,
    `Issued At: ${new Date().toISOString()}`,
  ].join('\n')
}

/** A sign-in message and its signature, both of the wallet's first account; `nonce` asks the server for one. */
export async function signIn({ provider }, { nonce, statement }) {
  const [address] = (await provider.request({ method: 'eth_requestAccounts' })) ?? []
  if (!/^0x[0-9a-f]{40}$/i.test(address ?? '')) throw new NoAccountError()
  const chainId = await provider.request({ method: 'eth_chainId' })
  const message = signInMessage({ address, chainId, nonce: await nonce(), statement })
  const params = [`0x${hexOf(new TextEncoder().encode(message))}`, address]
  return { message, signature: await provider.request({ method: 'personal_sign', params }) }
}

