/** The server refused the request. `status` is that of HTTP, `problem` the document that it answered. */
export class RequestRefusedError extends Error {
  constructor(status, problem, retryAfter) {
    const faults = (problem.errors ?? []).map(({ pointer, detail }) => `${pointer} ${detail}`)
    const reason = problem.detail ?? problem.title ?? 'no reason given'
    const detail = faults.length ? reason.replace(/\.$/, '') : reason
    super([`The server answered ${status}: ${detail}`, ...faults].join('; '))
    this.name = 'RequestRefusedError'
    this.status = status
    this.problem = problem
    this.retryAfter = retryAfter
  }
}

/** No answer, or only 429 and 5xx until the time was over; `mayHaveSent` says whether it may have processed the request. */
export class BridgeUnreachableError extends Error {
  constructor(message, mayHaveSent, cause) {
    super(message, { cause })
    this.name = 'BridgeUnreachableError'
    this.mayHaveSent = mayHaveSent
  }
}
