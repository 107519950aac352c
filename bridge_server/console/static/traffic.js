// The live list of requests: rows come as server-sent events, at most 500 stay, and each frame draws them once.
(() => {
  const MOST_ROWS = 500
  const SAY_EVERY_MS = 5000

  function cell(row, tag, words, className) {
    const made = row.appendChild(document.createElement(tag))
    if (className) made.className = className
    made.textContent = words
    return made
  }

  /** The name of a line's row. Each of several processes numbers its own requests. */
  const keyOf = (line) => line.process === undefined ? `${line.number}` : `${line.process}-${line.number}`

  /** Whether a line stands above a row: by number, or by time where several processes number. */
  function isAbove(line, row) {
    if (line.process === undefined) return line.number > Number(row.id.slice(8))
    const at = row.querySelector('time').dateTime
    return line.at === at ? line.number > Number(row.id.split('-')[2]) : line.at > at
  }

  const inOrder = (one, other) => one.process !== undefined && one.at !== other.at ? (one.at < other.at ? -1 : 1) : one.number - other.number

  customElements.define('live-traffic', class extends HTMLElement {
    connectedCallback() {
      this.body = this.querySelector('tbody')
      this.rows = new Map([...this.body.rows].map((row) => [row.id.slice(8), row]))
      this.table = this.querySelector('table')
      this.since = this.dataset.last
      this.last = Number(this.dataset.last)  // of several processes this is no number
      this.arrived = new Map()
      this.unsaid = this.skipped = 0
      this.body.addEventListener('click', (event) => this.clicked(event))
      if (!this.dataset.stream) return
      this.pause = document.querySelector('.pause')
      this.pause.hidden = false
      this.toggled = () => this.toggle()
      this.pause.addEventListener('click', this.toggled)
      for (const row of this.body.rows) if (row.dataset.waits) this.wait(row, Number(row.dataset.waits))
      this.ticking = setInterval(() => this.tick(), 1000)
      this.saying = setInterval(() => this.say(), SAY_EVERY_MS)
      this.start()
    }

    disconnectedCallback() {
      this.source?.close()
      clearInterval(this.ticking)
      clearInterval(this.saying)
      this.pause?.removeEventListener('click', this.toggled)
    }

    start() {
      const address = new URL(this.dataset.stream, location.href)
      address.searchParams.set('since', this.since)
      this.source = new EventSource(address)
      this.source.addEventListener('request', (event) => this.arrive(JSON.parse(event.data), event.lastEventId))
      this.source.addEventListener('skipped', (event) => { this.skipped += JSON.parse(event.data).changes })
      this.source.addEventListener('error', () => {
        if (this.source.readyState === EventSource.CLOSED) this.state('The list is not live any more: load the page again.')
      })
    }

    toggle() {
      const isPaused = this.pause.getAttribute('aria-pressed') !== 'true'
      this.pause.setAttribute('aria-pressed', isPaused)
      this.source.close()
      if (!isPaused) this.start()
      this.state(isPaused ? 'The list is paused.' : '')
    }

    /** Keep a row for the next frame; the oldest go when no frame is drawn, as in a tab that is not seen. */
    arrive(line, id) {
      if (line.change < this.last) this.empty()
      this.since = id
      if (line.process === undefined) this.last = line.change
      this.arrived.delete(keyOf(line))
      this.arrived.set(keyOf(line), line)
      if (this.arrived.size > MOST_ROWS) this.arrived.delete(this.arrived.keys().next().value)
      this.drawing ??= requestAnimationFrame(() => this.draw())
    }

    draw() {
      this.drawing = undefined
      const lines = [...this.arrived.values()].sort(inOrder)
      this.arrived.clear()
      for (const line of lines) this.show(line)
      for (let row = this.body.lastElementChild; this.body.rows.length > MOST_ROWS && row;) {
        const above = row.previousElementSibling
        if (!row.matches('.open, :focus-within')) {
          this.rows.delete(row.id.slice(8))
          row.remove()
        }
        row = above
      }
      this.querySelector('.empty').hidden = this.body.rows.length > 0
    }

    /** Put a row at its place, or complete it where it is. */
    show(line) {
      let row = this.rows.get(keyOf(line))
      if (!row) {
        const oldest = this.body.lastElementChild
        const isFull = this.body.rows.length >= MOST_ROWS
        if (isFull && !isAbove(line, oldest)) return
        row = document.createElement('tr')
        row.id = `request-${keyOf(line)}`
        let below = this.body.firstElementChild
        while (below && !isAbove(line, below)) below = below.nextElementSibling
        this.fill(row, line)
        this.body.insertBefore(row, below)
        this.rows.set(keyOf(line), row)
        this.unsaid += 1
        this.tell(line)
      } else {
        this.fill(row, line)
      }
    }

    /** Show the column of processes once there are several. */
    tell(line) {
      if (line.process === undefined || !this.table.matches('.of-one')) return
      this.first ??= this.body.lastElementChild.querySelector('.process').textContent
      if (this.first !== `${line.process}`) this.table.classList.remove('of-one')
    }

    /** The address of a request's page. */
    address(line) {
      const { path, query } = this.dataset
      const process = line.process === undefined ? '' : `${query ? '&' : '?'}process=${line.process}`
      return `${path}/${line.number}${query}${process}`
    }

    fill(row, line) {
      const known = row.querySelector('a')
      const link = known ?? document.createElement('a')
      link.textContent = line.request
      link.href = this.address(line)
      delete row.waitsSince
      if (known) {  // the link keeps the focus
        const [, who, , status, took, summary] = [...row.cells].filter((each) => !each.matches('.process'))
        who.textContent = line.who
        status.textContent = line.status
        status.className = `tone-${line.tone}`
        took.textContent = line.took
        summary.textContent = line.summary
      } else {
        const time = document.createElement('time')
        time.dateTime = line.at
        cell(row, 'td', '').append(time)
        cell(row, 'td', line.who)
        if (line.process !== undefined) cell(row, 'td', line.process, 'process number')
        const head = cell(row, 'th', '')
        head.scope = 'row'
        head.append(link)
        cell(row, 'td', line.status, `tone-${line.tone}`)
        cell(row, 'td', line.took, 'number')
        cell(row, 'td', line.summary, 'summary')
      }
      if (line.waits !== null) this.wait(row, line.waits)
      row.querySelector('.decision')?.remove()
      if (line.approval && this.dataset.token) cell(row, 'td', '', 'decision').append(this.decision(line.approval))
    }

    /** The buttons of a row that waits for a person. */
    decision(approval) {
      const form = document.createElement('form')
      form.method = 'post'
      form.action = `${this.dataset.path}${this.dataset.query}`
      const fields = [['input', 'form_token', this.dataset.token], ['input', 'approval', approval], ['button', 'do', 'approve', 'Approve'], ['button', 'do', 'reject', 'Reject']]
      for (const [tag, name, value, words] of fields) {
        const field = form.appendChild(document.createElement(tag))
        Object.assign(field, { name, value, className: { approve: 'main', reject: 'danger' }[value] ?? '' })
        if (words) field.textContent = words
        else field.type = 'hidden'
      }
      return form
    }

    wait(row, seconds) {
      row.waitsSince = performance.now() - 1000 * seconds
    }

    tick() {
      for (const row of this.rows.values()) {
        if (row.waitsSince === undefined) continue
        row.querySelector('[class^=tone-]').textContent = `waits ${((performance.now() - row.waitsSince) / 1000).toFixed(1)} s`
      }
    }

    /** The record was emptied: its numbers begin anew. */
    empty() {
      this.arrived.clear()
      this.rows.clear()
      this.body.replaceChildren()
    }

    say() {
      if (this.pause.getAttribute('aria-pressed') === 'true' || !this.unsaid) return
      const skipped = this.skipped ? `, and ${this.skipped} more that are not shown` : ''
      this.state(`${this.unsaid} new requests${skipped}`)
      this.unsaid = this.skipped = 0
    }

    state(words) {
      this.querySelector('.live-state').textContent = words
    }

    clicked(event) {
      const link = event.target.closest('a')
      if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
      event.preventDefault()
      this.open(link)
    }

    /** Show the request beside the list, which goes on. */
    async open(link) {
      const page = await fetch(link.href)
        .then(async (response) => new DOMParser().parseFromString(await response.text(), 'text/html'))
        .catch(() => null)
      const found = page?.querySelector('main > .detail')
      if (!found || !this.isConnected) {
        location.href = link.href
        return
      }
      const main = this.closest('main')
      const detail = document.adoptNode(found)
      main.querySelector(':scope > .detail')?.remove()
      main.append(detail)
      main.className = 'split'
      htmx.process(detail)
      history.replaceState({ htmx: true }, '')  // htmx loads pages with this state again when they are gone back to
      history.pushState({ htmx: true }, '', link.href)
      document.title = page.title
      for (const row of this.body.querySelectorAll('.open')) row.classList.remove('open')
      for (const other of this.body.querySelectorAll('[aria-current]')) other.removeAttribute('aria-current')
      link.closest('tr').classList.add('open')
      link.setAttribute('aria-current', 'true')
      if (!link.checkVisibility()) {  // on a narrow screen the detail stands in the place of the list
        detail.tabIndex = -1
        detail.focus()
        scrollTo(0, 0)
      }
    }
  })
})()
