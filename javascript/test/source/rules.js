// Rules of a wallet, from objects to the text that `bridge-server wallet --on` takes.

/**
 * `{ eth_sendTransaction: 'reject', personal_sign: ['approve*2', 'reject'] }` becomes
 * `['eth_sendTransaction=reject', 'personal_sign=approve*2', 'personal_sign=reject']`.
 * An array of such texts is returned as it is.
 */
export function rulesOf(on) {
  if (Array.isArray(on)) return on
  return Object.entries(on).flatMap(([method, actions]) =>
    [actions].flat().map((action) => `${method}=${action}`)
  )
}
