// Calls of the HTTP API. The token stays in this tab (sessionStorage) and goes to this origin only.

import { clock } from './format.js';

const KEY = 'proteus-token';

export const token = {
  get: () => {
    try {
      return sessionStorage.getItem(KEY) || '';
    } catch {
      return '';
    }
  },
  set: (value) => {
    try {
      if (value) sessionStorage.setItem(KEY, value);
      else sessionStorage.removeItem(KEY);
    } catch {
      /* private mode */
    }
  },
};

export const headers = () => (token.get() ? { Authorization: `Bearer ${token.get()}` } : {});

/** A refusal or failure in the service's own words (problem+json). */
export class Problem extends Error {
  constructor(status, doc) {
    super(doc?.detail || doc?.title || `the service answered ${status}`);
    this.status = status;
    this.doc = doc;
  }
}

export async function problemOf(response) {
  let doc = null;
  try {
    doc = await response.json();
  } catch {
    /* not JSON */
  }
  if (response.status === 401) globalThis.dispatchEvent?.(new Event('proteus-token'));
  return new Problem(response.status, doc);
}

const SKEW_MS = 5000; // what a slow answer and whole seconds may look like
export async function get(path) {
  const response = await fetch(path, { headers: { Accept: 'application/json', ...headers() }, cache: 'no-store' });
  if (!response.ok) throw await problemOf(response);
  const ahead = Date.parse(response.headers.get('Date')) - Date.now();
  if (Number.isFinite(ahead)) clock.ahead_ms = Math.abs(ahead) > SKEW_MS ? ahead : 0;
  return response.json();
}

const breath = () => new Promise((resolve) => setTimeout(resolve, 0));

/** All pages of a list, one after another; `each` stops it by giving false. Drawing goes on between them. */
export async function getAll(path, each) {
  for (let cursor = null; ;) {
    const page = await get(cursor === null ? path : `${path.replace(/&cursor=[^&]*/, '')}&cursor=${encodeURIComponent(cursor)}`);
    if (each(page) === false || typeof page.next !== 'string') return;
    cursor = page.next;
    await breath();
  }
}

export async function getBlob(path) {
  const response = await fetch(path, { headers: headers(), cache: 'no-store' });
  if (!response.ok) throw await problemOf(response);
  return response.blob();
}

export async function getText(path) {
  const response = await fetch(path, { headers: headers(), cache: 'no-store' });
  if (!response.ok) throw await problemOf(response);
  return response.text();
}

export async function getBytes(path) {
  const response = await fetch(path, { headers: headers(), cache: 'no-store' });
  if (!response.ok) throw await problemOf(response);
  return new Uint8Array(await response.arrayBuffer());
}

export async function post(path, body) {
  const response = await fetch(path, {
    method: 'POST',
    headers: { ...headers(), ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw await problemOf(response);
  return response.json();
}
