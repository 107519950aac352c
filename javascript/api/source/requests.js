// Requests with the project's secret, and the waits between their attempts.

import { BridgeUnreachableError, RequestRefusedError } from './errors.js'

const LONGEST_WAIT = 3600
const FIRST_WAIT = 0.25
const LONGEST_OWN_WAIT = 15

/** An attempt that failed and may succeed later. `mayHaveSent`: the server may have processed it. */
class FailedAttempt extends Error {
  constructor(message, { mayHaveSent, status, retryAfter, refusal, cause }) {
    super(message, { cause })
    Object.assign(this, { mayHaveSent, status, retryAfter, refusal })
  }
}

export class Requests {
  #headers
  #fetch
  #attemptSeconds

  constructor(url, secret, { fetch, attemptSeconds }) {
    this.url = url
    this.#headers = {
      Accept: 'application/json',
      'Content-Type': 'application/json',
      Authorization: `Bearer ${secret}`,
    }
    this.#fetch = fetch
    this.#attemptSeconds = attemptSeconds
  }

  /** Resolves to the JSON of an answer with 2xx; rejects with FailedAttempt or RequestRefusedError. */
  async attempt(method, path, body) {
    const pieces = []
    for await (const piece of this.pieces(method, path, body)) pieces.push(piece)
    return parsed(pieces.join(''))
  }

  /** Yields the text of an answer with 2xx as it arrives; rejects as `attempt`. */
  async *pieces(method, path, body) {
    const aborting = new AbortController()
    try {
      const answer = await this.#inTime(aborting, this.#asked(method, path, body, aborting.signal))
      const [reader, decoder, refusal] = [answer.body?.getReader(), new TextDecoder(), []]
      const isSuccess = answer.status >= 200 && answer.status < 300
      while (reader) {
        const { done, value } = await this.#inTime(aborting, reader.read())
        if (done) break
        const piece = decoder.decode(value, { stream: true })
        if (isSuccess) yield piece
        else refusal.push(piece)
      }
      if (!isSuccess) throw failureOf(answer, refusal.join(''))
    } finally {
      aborting.abort()
    }
  }

  #asked(method, path, body, signal) {
    const fetch = this.#fetch ?? globalThis.fetch
    return fetch(this.url + path, { method, body, headers: this.#headers, redirect: 'manual', signal })
  }

  /** A long answer may take longer than an attempt, as long as something arrives. */
  async #inTime(aborting, step) {
    const timer = setTimeout(() => aborting.abort(), this.#attemptSeconds * 1000)
    try {
      return await step
    } catch (cause) {
      const late = `no answer within ${this.#attemptSeconds} s`
      const reason = aborting.signal.aborted ? late : (cause.cause?.message ?? cause.message)
      throw new FailedAttempt(reason, { mayHaveSent: !neverSent(cause), cause })
    } finally {
      clearTimeout(timer)
    }
  }
}

/** A refusal that is final, or a failed attempt when it may pass. */
function failureOf(answer, text) {
  const { status } = answer
  const retryAfter = seconds(answer.headers.get('retry-after'))
  const refusal = new RequestRefusedError(status, problemOf(text), retryAfter)
  if (status !== 429 && status < 500) return refusal
  const mayHaveSent = status !== 429 && status !== 503
  return new FailedAttempt(refusal.message, { mayHaveSent, status, retryAfter, refusal })
}

/** Says how long to wait after a failed attempt; throws when the server has failed for too long. */
export class Patience {
  #url
  #seconds
  #failures = 0
  #since

  constructor(url, seconds) {
    this.#url = url
    this.#seconds = seconds
  }

  succeeded() {
    this.#failures = 0
    this.#since = undefined
  }

  /** With `outwaits429` a 429 is waited out however often it comes. */
  pauseAfter(failure, outwaits429) {
    if (!(failure instanceof FailedAttempt)) throw failure
    this.#failures += 1
    const pause = pauseOf(this.#failures, failure.retryAfter)
    if (outwaits429 && failure.status === 429) {
      this.#since = undefined
      return pause
    }
    this.#since ??= Date.now()
    if (Date.now() + pause * 1000 > this.#since + this.#seconds * 1000) {
      if (failure.retryAfter > this.#seconds && failure.refusal) throw failure.refusal
      throw this.unreachable(failure)
    }
    return pause
  }

  unreachable(failure, more = '') {
    const message = `The server ${this.#url} cannot be used: ${failure.message}.${more}`
    return new BridgeUnreachableError(message, failure.mayHaveSent, failure)
  }
}

export const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000))

function pauseOf(failures, asked) {
  const doubled = Math.min(FIRST_WAIT * 2 ** Math.min(failures - 1, 16), LONGEST_OWN_WAIT)
  const own = doubled * (1 - Math.random() / 2)
  return asked === undefined ? own : Math.max(own, Math.min(asked, LONGEST_WAIT) + FIRST_WAIT * Math.random())
}

/** Node and Deno name the fault; elsewhere nobody can say that nothing was sent. */
function neverSent(error) {
  return ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'].includes(error.cause?.code)
}

function seconds(header) {
  if (header === null) return undefined
  if (/^\s*[0-9]{1,15}\s*$/.test(header)) return Number(header)
  const moment = Date.parse(header)
  return Number.isNaN(moment) ? undefined : Math.max(0, (moment - Date.now()) / 1000)
}

function parsed(text) {
  try {
    const answer = JSON.parse(text)
    if (typeof answer === 'object' && answer !== null) return answer
  } catch {
    // not JSON: below
  }
  throw new TypeError("The server's answer is none of Bridge Server's. Is the URL that of its root?")
}

function problemOf(text) {
  try {
    const problem = JSON.parse(text)
    return typeof problem === 'object' && problem !== null ? problem : {}
  } catch {
    return {}
  }
}
