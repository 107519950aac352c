// All subscribers of a project: one long answer, in the order of account ids, read as it arrives.

/** Characters without the end of a string: far longer than any account id. */
const LONGEST_REST = 1_048_576

/** Reads the account ids that follow `after`. After a failure another reading goes on behind the last one. */
export class Listing {
  #requests
  #path
  #after

  constructor(requests, path, after) {
    this.#requests = requests
    this.#path = path
    this.#after = after
  }

  /** Yields pages; rejects as `Requests.attempt`. */
  async *pages() {
    const array = new StringArray()
    for await (const piece of this.#requests.pieces('GET', this.#path)) yield* this.#following(array.feed(piece))
    yield* this.#following(array.end())
  }

  *#following(accounts) {
    const page = accounts.filter((account) => account > this.#after)
    if (page.length === 0) return
    this.#after = page.at(-1)
    yield page
  }
}

/** Reads a JSON array of strings piece by piece. No account id has a quotation mark or a comma. */
class StringArray {
  #rest = ''
  #opening = '['

  feed(piece) {
    this.#rest += piece
    const end = this.#rest.lastIndexOf('",') + 1
    if (end === 0) {
      if (this.#rest.length > LONGEST_REST) throw notAListing()
      return []
    }
    const complete = this.#rest.slice(0, end)
    this.#rest = this.#rest.slice(end)
    return this.#strings(`${complete}]`)
  }

  end() {
    return this.#strings(this.#rest)
  }

  /** The strings of a part of the array, which begins with `[` at its start, later with a comma. */
  #strings(text) {
    if (!text.startsWith(this.#opening)) throw notAListing()
    this.#opening = ','
    let strings
    try {
      strings = JSON.parse(`[${text.slice(1)}`)
    } catch {
      throw notAListing()
    }
    if (!strings.every((each) => typeof each === 'string')) throw notAListing()
    return strings
  }
}

function notAListing() {
  return new TypeError("The server's answer is no list of accounts. Is the URL that of its root?")
}
