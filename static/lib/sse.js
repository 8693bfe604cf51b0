// Server-sent events over fetch (EventSource cannot send a token), with resume. The parser is pure; see tests/browser.

const MAX_EVENT = 1 << 20;
const SILENCE_MS = 45000; // three heartbeats

/** Feeds text in pieces cut anywhere; calls onEvent({type, id, data}) for each event. */
export class SseParser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = '';
    this.lastId = '';
    this.retryMs = 0;
    this.reset();
  }

  reset() {
    this.rest = '';
    this.data = [];
    this.type = '';
    this.id = this.lastId;
    this.size = 0;
  }

  feed(text) {
    this.rest += text;
    for (;;) {
      const at = this.rest.search(/[\r\n]/);
      if (at < 0 || (this.rest[at] === '\r' && at + 1 === this.rest.length)) break; // "\r" may be half of "\r\n"
      const step = this.rest[at] === '\r' && this.rest[at + 1] === '\n' ? 2 : 1;
      const line = this.rest.slice(0, at);
      this.rest = this.rest.slice(at + step);
      this.line(line);
    }
    if (this.rest.length + this.size > MAX_EVENT) throw new Error('an event is too large');
  }

  line(line) {
    if (line === '') return this.dispatch();
    if (line[0] === ':') return;
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value[0] === ' ') value = value.slice(1);
    if (name === 'data') {
      this.data.push(value);
      this.size += value.length;
    } else if (name === 'event') this.type = value;
    else if (name === 'id' && /^\d{1,18}$/.test(value)) this.id = value;
    else if (name === 'retry' && /^\d{1,6}$/.test(value)) this.retryMs = Number(value);
  }

  dispatch() {
    this.lastId = this.id;
    if (this.data.length) this.onEvent({ type: this.type || 'message', id: this.lastId, data: this.data.join('\n') });
    this.data = [];
    this.type = '';
    this.size = 0;
  }
}

/**
 * A stream that comes back until it is closed or the server says that it is over (204).
 * on: event(e), state('connecting'|'live'|'waiting'|'over'|'refused'), problem(response).
 */
export class EventStream {
  constructor(url, headers, lastId, on) {
    Object.assign(this, { url, headers, on, closed: false, attempt: 0 });
    this.parser = new SseParser((e) => {
      this.attempt = 0;
      on.event(e);
    });
    this.parser.lastId = lastId ? String(lastId) : '';
    this.run();
  }

  close() {
    this.closed = true;
    clearTimeout(this.watchdog);
    this.abort?.abort();
    this.wake?.();
  }

  async run() {
    while (!this.closed) {
      this.on.state('connecting');
      let end = null;
      try {
        end = await this.connect();
      } catch {
        /* the network: try again */
      }
      clearTimeout(this.watchdog);
      if (end && !this.closed) {
        this.closed = true;
        this.on.state(end);
        return;
      }
      if (this.closed) return;
      const base = this.parser.retryMs || 500;
      const wait = Math.min(base * 2 ** Math.min(this.attempt++, 5), 10000) * (0.75 + Math.random() / 2);
      this.on.state('waiting', Date.now() + wait);
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }

  listen() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.abort.abort(), SILENCE_MS);
  }

  /** 'over': there is nothing more to come; 'refused': not to us; null: try again. */
  async connect() {
    this.abort = new AbortController();
    this.parser.reset();
    const headers = { Accept: 'text/event-stream', ...this.headers() };
    if (this.parser.lastId) headers['Last-Event-ID'] = this.parser.lastId;
    this.listen();
    const response = await fetch(this.url, { headers, signal: this.abort.signal, cache: 'no-store' });
    if (response.status === 204) return 'over';
    if (!response.ok) {
      await this.on.problem(response);
      return response.status !== 429 && response.status < 500 ? 'refused' : null;
    }
    this.on.state('live');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return null;
      this.listen();
      this.parser.feed(value);
    }
  }
}
