// The requests of the inbox, and the token that they carry.

/** A refusal of the server, or no answer at all (status 0). */
export class AnswerError extends Error {
  constructor(status, detail, retryAfterSeconds = 0) {
    super(detail)
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** The requests of the inbox, below one URL; `session.current` has the token. */
export class Server {
  constructor(base, session) {
    this.base = base
    this.session = session
  }

  async request(method, path, { body, headers, signal } = {}) {
    const token = this.session.current?.token
    const response = await fetch(new URL(path, this.base), {
      method,
      signal,
      cache: 'no-store',
      headers: {
        ...(token && { Authorization: `Bearer ${token}` }),
        ...(body && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: body && JSON.stringify(body),
    }).catch((error) => {
      throw signal?.aborted ? error : new AnswerError(0, '')
    })
    if (!response.ok) throw await refusalOf(response)
    return response
  }

  async json(method, path, options) {
    return (await this.request(method, path, options)).json()
  }
}

async function refusalOf(response) {
  const problem = await response.json().catch(() => ({}))
  const details = (problem.errors ?? []).map(({ detail }) => detail)
  return new AnswerError(
    response.status,
    [problem.detail, ...details].filter(Boolean).join(' '),
    Number(response.headers.get('Retry-After')) || 0
  )
}

/** The sign-in of this page: sessionStorage keeps it until the tab is closed. */
export class Session {
  #key
  #kept

  constructor(base) {
    this.#key = `bridge-inbox ${base}`
    this.#kept = read(this.#key)
  }

  /** `{ token, account, expires_at, rdns }`, or null. The server says when a token has expired. */
  get current() {
    return this.#kept
  }

  keep(signedIn) {
    this.#kept = signedIn
    try {
      if (signedIn) sessionStorage.setItem(this.#key, JSON.stringify(signedIn))
      else sessionStorage.removeItem(this.#key)
    } catch {
      // A page without storage keeps the sign-in until it is left.
    }
  }
}

function read(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key))
  } catch {
    return null
  }
}
