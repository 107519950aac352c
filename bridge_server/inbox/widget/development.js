// The wallet of a server for development, which signs with published keys.

/** The wallet of the first development account of the server whose inbox is at `base`. */
export function developmentWallet(base) {
  const request = async ({ method, params = [] }) => {
    const response = await fetch(new URL('../rpc', base), {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    const { result, error, detail } = await response.json()
    if (error) throw Object.assign(new Error(error.message), { code: error.code })
    if (detail) throw new Error(detail)
    return result
  }
  return { name: 'development account 0', isAccount: true, rdns: 'bridge-server.development', provider: { request } }
}
