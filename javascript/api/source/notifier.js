import { Listing } from './listing.js'
import { Patience, Requests, sleep } from './requests.js'

const ACCOUNTS_AT_ONCE = 500
const LOOKED_UP_AT_ONCE = 100

/** Sends notifications of a project. For the app's backend: its secret must not be in a web page. */
export class Notifier {
  #requests
  #project
  #patience
  #walkPatience

  constructor(url, project, secret, options = {}) {
    const { fetch, attemptSeconds = 10, patienceSeconds = 30, walkPatienceSeconds = 300 } = options
    if (!/^[a-z0-9-]{1,64}$/.test(project)) {
      throw new TypeError('a project id has 1 to 64 characters of a-z, 0-9 and the hyphen')
    }
    if (!/^[!-~]{1,4096}$/.test(secret)) {
      throw new TypeError('a secret has visible ASCII characters only, without spaces and line ends')
    }
    this.#requests = new Requests(rootOf(url), secret, { fetch, attemptSeconds })
    this.#project = project
    this.#patience = patienceSeconds
    this.#walkPatience = walkPatienceSeconds
  }

  /** Sends to at most 500 accounts; resolves to `{ sent, failed, notFound }`. */
  async notify({ to, dryRun = false, ...content }) {
    const accounts = list(to)
    if (accounts.length > ACCOUNTS_AT_ONCE) {
      throw new RangeError(`one call takes ${ACCOUNTS_AT_ONCE} accounts: notifyAll({ to }) any number`)
    }
    const body = JSON.stringify({ ...fieldsOf(content), accounts })
    const isRepeatable = dryRun || content.id !== undefined
    return resultOf(await this.#retried('POST', this.#notifyPath('', dryRun), body, isRepeatable))
  }

  /** Sends to all subscribers, or to any number of accounts; yields the progress. */
  async *notifyAll({ to, after = '', dryRun = false, ...content }) {
    const id = content.id ?? (dryRun ? undefined : newId())
    const fields = fieldsOf({ ...content, id })
    if (to !== undefined) to = list(to)
    let progress = {
      id, after, total: undefined, accounts: 0, sent: 0, rateLimited: 0, typeNotSubscribed: 0, notFound: 0,
      waits: 0, because: '', result: undefined,
    }
    yield progress
    if (to === undefined) {
      yield* this.#notifyAudience(progress, fields, dryRun)
      return
    }
    const accounts = [...new Set(to)].sort().filter((account) => account > after)
    progress = { ...progress, total: accounts.length }
    yield progress
    for (const some of chunks(accounts, ACCOUNTS_AT_ONCE)) {
      const answer = yield* this.#patient(progress, this.#notifyPath('', dryRun), { ...fields, accounts: some })
      progress = progressAfter(progress, resultOf(answer), some.at(-1))
      yield progress
    }
  }

  /** Yields the account ids of all subscribers in order, or of those that follow `after`, as they arrive. */
  async *subscribers({ after = '' } = {}) {
    const listing = new Listing(this.#requests, `/${this.#project}/subscribers`, after)
    const patience = new Patience(this.#requests.url, this.#walkPatience)
    for (;;) {
      let pause
      try {
        for await (const page of listing.pages()) {
          patience.succeeded()
          yield* page
        }
        return
      } catch (failure) {
        pause = patience.pauseAfter(failure, true)
      }
      await sleep(pause)
    }
  }

  /** Resolves to the subscribers among the accounts: a Map of `{ account, notificationTypes }` by account id. */
  async lookup(accounts) {
    const found = new Map()
    for (const some of chunks(list(accounts), LOOKED_UP_AT_ONCE)) {
      const body = JSON.stringify({ accounts: some })
      const answer = await this.#retried('POST', `/v1/${this.#project}/subscribers`, body, true)
      for (const [account, { notification_types: notificationTypes }] of Object.entries(answer)) {
        found.set(account, { account, notificationTypes })
      }
    }
    return found
  }

  /** Sends to all subscribers, whom the server walks through; yields the progress. */
  async *#notifyAudience(progress, fields, dryRun) {
    const isWhole = progress.after === ''
    let { after } = progress
    do {
      const answer = yield* this.#patient(progress, this.#notifyPath('/audience', dryRun), {
        ...fields, audience: 'all', after,
      })
      const result = resultOf(answer)
      after = answer.next
      if (after !== null && typeof after !== 'string') throw notAServer()
      const total = progress.total ?? (isWhole ? answer.total : undefined)
      progress = { ...progressAfter(progress, result, after ?? lastOf(result, progress.after)), total }
      yield progress
    } while (after !== null)
  }

  #notifyPath(more, dryRun) {
    return `/${this.#project}/notify${more}${dryRun ? '?dry_run=1' : ''}`
  }

  async #retried(method, path, body, isRepeatable) {
    const patience = new Patience(this.#requests.url, this.#patience)
    for (;;) {
      try {
        return await this.#requests.attempt(method, path, body)
      } catch (failure) {
        if (failure.mayHaveSent && !isRepeatable) {
          throw patience.unreachable(failure, ' It may have taken the request.')
        }
        await sleep(patience.pauseAfter(failure, false))
      }
    }
  }

  /** Returns the answer; yields the progress before each wait. Only for what can be repeated. */
  async *#patient(progress, path, fields) {
    const body = JSON.stringify(fields)
    const patience = new Patience(this.#requests.url, this.#walkPatience)
    for (;;) {
      let pause
      let because
      try {
        return await this.#requests.attempt('POST', path, body)
      } catch (failure) {
        pause = patience.pauseAfter(failure, true)
        because = failure.message
      }
      yield { ...progress, waits: pause, because, result: undefined }
      await sleep(pause)
    }
  }
}

function rootOf(url) {
  const { protocol, username, password, search, hash, href } = new URL(url)
  if (!/^https?:$/.test(protocol) || username || password || search || hash) {
    throw new TypeError('the URL of the server is http or https, without user, query and fragment')
  }
  return href.replace(/\/+$/, '')
}

function list(accounts) {
  if (typeof accounts === 'string' || accounts?.[Symbol.iterator] === undefined) {
    throw new TypeError('the accounts must be a list of account ids')
  }
  return [...accounts]
}

function fieldsOf({ type, title, body, url, id }) {
  return { notification: { type, title, body, url }, notification_id: id }
}

function resultOf({ sent, failed, not_found: notFound }) {
  if (![sent, failed, notFound].every(Array.isArray)) {
    throw notAServer()
  }
  const missed = failed.map(({ account, reason, retry_after: retryAfter }) => ({ account, reason, retryAfter }))
  return { sent, failed: missed, notFound }
}

function notAServer() {
  return new TypeError("The server's answer is none of Bridge Server's. Is the URL that of its root?")
}

/** The last account of a call, in the order of account ids. */
function lastOf({ sent, failed, notFound }, otherwise) {
  return [...sent, ...failed.map(({ account }) => account), ...notFound].sort().at(-1) ?? otherwise
}

function progressAfter(progress, result, after) {
  const count = (reason) => result.failed.filter((failed) => failed.reason === reason).length
  return {
    ...progress,
    after,
    accounts: progress.accounts + result.sent.length + result.failed.length + result.notFound.length,
    sent: progress.sent + result.sent.length,
    rateLimited: progress.rateLimited + count('rate_limited'),
    typeNotSubscribed: progress.typeNotSubscribed + count('type_not_subscribed'),
    notFound: progress.notFound + result.notFound.length,
    result,
  }
}

function* chunks(accounts, size) {
  for (let first = 0; first < accounts.length; first += size) yield accounts.slice(first, first + size)
}

/** A UUID of version 4. Node 18 has no global `crypto`; the id must be unique, and is no secret. */
function newId() {
  if (globalThis.crypto?.randomUUID) return globalThis.crypto.randomUUID()
  return 'xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx'.replace(/x/g, () => Math.floor(Math.random() * 16).toString(16))
}
