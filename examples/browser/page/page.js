/* page: starts the program, asks it, and lays out what it answers. No number is computed here: those that are shown are
 * texts of the program, and the others only place and color what is drawn. */
'use strict';

const stations = {};

const page = {
    letters: ['a', 'b', 'c', 'd', 'e', 'f'],
    program: null,
    /* all requests so far, which the test gives to the console program; kept only if the URL asks for it */
    record: null,
    asked: 0,
    language: 'en',
    state: {},
    leave: null,
};

/* ---- texts ---- */

function say(key) {
    return texts[page.language][key] ?? texts.en[key] ?? key;
}

/* ---- elements ---- */

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
        if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
        else if (value === true) node.setAttribute(name, '');
        else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
    return node;
}

function el(name, attributes, ...children) {
    return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
    return fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

/* A number of an answer, as the program wrote it. The test finds it by its path. */
function mark(node, answer, path) {
    const value = path.split('.').reduce((at, key) => (at == null ? at : at[key]), answer);
    node.textContent = String(value);
    node.setAttribute('data-from', answer.number + ':' + path);
    return node;
}

function figure(answer, path, name) {
    return mark(el(name || 'span', {class: name ? null : 'figure'}), answer, path);
}

/* A text whose {path} are numbers of an answer; `others` has names for numbers of other answers. */
function sentence(key, answer, others) {
    return say(key).split(/(\{[^}]+\})/).map((part) => {
        const path = part.slice(1, -1);
        return !part.startsWith('{') || !answer ? part : figure(...(others?.[path] ?? [answer, path]));
    });
}

function paragraph(key, answer, kind) {
    return el('p', {class: kind}, sentence(key, answer));
}

/* ---- the program ---- */

function ask(request, text) {
    const whole = text == null ? request : request + '\n' + text.replaceAll('\0', '\ufffd');
    const bytes = new TextEncoder().encode(whole);
    const {_malloc: malloc, _free: free, _page_call: call} = page.program;
    const at = malloc(bytes.length + 1);
    if (!at) return {error: 'out of memory', number: -1};
    page.program.HEAPU8.set(bytes, at);
    page.program.HEAPU8[at + bytes.length] = 0;
    const from = call(at);
    free(at);
    const heap = page.program.HEAPU8;
    const answer = JSON.parse(new TextDecoder().decode(heap.subarray(from, heap.indexOf(0, from))));
    answer.number = page.asked++;
    if (page.record) page.record.push(whole);
    return answer;
}

/* ---- parts of a station ---- */

/* The prediction of a station. `answer` may have new numbers later: `refresh` shows them. */
function question(letter, right, answer, others) {
    const verdict = el('p', {class: 'verdict', 'aria-live': 'polite'});
    let chosen = null;
    const buttons = [0, 1, 2].map((k) => el('button', {type: 'button', 'aria-pressed': 'false', onclick: () => {
        chosen = k;
        buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(i === k)));
        section.refresh();
    }}, say(letter + '.choice' + k)));
    const section = el('section', {class: 'question', 'aria-labelledby': 'question-' + letter},
        el('p', {id: 'question-' + letter}, el('strong', {}, say('predict') + ' '), say(letter + '.question')),
        el('div', {class: 'choices'}, buttons), verdict);
    section.refresh = (quiet) => {
        verdict.setAttribute('aria-live', quiet ? 'off' : 'polite');
        if (chosen != null) verdict.replaceChildren(say(chosen === right() ? 'right' : 'not_right') + ' ', ...sentence(letter + '.reason', answer(), others));
    };
    return section;
}

function code(...names) {
    const highlight = (line) => {
        const at = line.indexOf('/*');
        return at < 0 ? line : [line.slice(0, at), el('span', {class: 'comment'}, line.slice(at))];
    };
    return el('section', {'aria-label': say('code')}, el('h3', {}, say('code')), names.map((name) =>
        el('pre', {class: 'code', tabindex: '0'}, shown[name].split('\n').map((line) => [highlight(line), '\n']))));
}

/* Shows the error of an answer, and greys the parts that an earlier answer has filled. Returns whether all is well. */
function isGood(answer, line, ...parts) {
    line.textContent = answer.error ?? '';
    parts.forEach((part) => part.classList.toggle('stale', !!answer.error));
    return !answer.error;
}

/* A bar from the color of the smallest value of a picture to that of the largest. */
function colorKey(answer, least, most, kind) {
    return el('p', {class: 'key note'}, figure(answer, least), el('span', {class: 'bar ' + kind}), figure(answer, most));
}

/* The width for a drawing in a card. */
function space(card) {
    const style = getComputedStyle(card);
    return card.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
}

function errorLine() {
    return el('p', {class: 'error', role: 'alert'});
}

/* A group of choices of which one is pressed. */
function choose(label, values, names, chosen, change) {
    const buttons = values.map((value, i) => el('button', {type: 'button', 'aria-pressed': String(value === chosen),
        onclick: () => {
            buttons.forEach((button, k) => button.setAttribute('aria-pressed', String(k === i)));
            change(value);
        }}, names[i]));
    return el('fieldset', {}, el('legend', {}, label), el('div', {class: 'choices'}, buttons));
}

function textInput(label, value, change, attributes) {
    const input = el('input', {type: 'text', value, spellcheck: 'false', autocomplete: 'off', maxlength: '200',
        oninput: () => change(input.value), ...attributes});
    return el('label', {class: 'wide'}, label, input);
}

/* Calls a function when typing has paused. */
function paused(call) {
    let timer;
    return (...values) => {
        clearTimeout(timer);
        timer = setTimeout(() => call(...values), 150);
    };
}

/* A color for a value in [-1,1]: the accent for positive values, the other color for negative ones. */
function tint(value, strength) {
    const part = Math.round(Math.min(1, Math.abs(value)) * (strength ?? 55));
    return `color-mix(in srgb, var(${value < 0 ? '--other' : '--accent'}) ${part}%, var(--card))`;
}

/* A matrix of figures as a table; `on` says which cells are lit. */
function matrix(answer, path, label, on) {
    const rows = path.split('.').reduce((at, key) => at[key], answer);
    return el('table', {'aria-label': label}, el('tbody', {}, rows.map((row, i) => el('tr', {}, row.map((value, k) =>
        fill(figure(answer, `${path}.${i}.${k}`, 'td'), {class: on && on(i, k) ? 'on' : null}, []))))));
}

/* ---- state in the URL ---- */

function readHash() {
    const [letter, query] = location.hash.slice(1).split('?');
    return {letter: page.letters.includes(letter) && stations[letter] ? letter : null,
        values: Object.fromEntries(new URLSearchParams(query || ''))};
}

function keep(name, value) {
    page.state[name] = value;
    const query = new URLSearchParams(page.state).toString();
    if (query.length < 1500) history.replaceState(null, '', '#' + page.letter + (query ? '?' + query : ''));
}

/* ---- showing a station ---- */

function show(letter, values, focus) {
    if (page.leave) page.leave();
    page.leave = null;
    page.letter = letter;
    page.state = values;
    document.documentElement.lang = page.language;
    document.title = say(letter + '.title') + ' · ' + say('title');
    document.getElementById('title').textContent = say('title');
    document.getElementById('lead').textContent = say('lead');
    document.getElementById('foot').textContent = say('foot') + (say('made') === 'made' ? '' : ' ' + say('made'));
    document.getElementById('language-label').textContent = say('language');
    const present = page.letters.filter((name) => stations[name]);
    document.getElementById('stations').replaceChildren(...present.map((name) => el('li', {},
        el('a', {href: '#' + name, 'aria-current': name === letter ? 'page' : null}, el('b', {}, name),
            say(name + '.short')))));
    const main = document.getElementById('main');
    main.replaceChildren(el('h2', {}, say(letter + '.title')), paragraph(letter + '.lead'));
    stations[letter](main, values);
    const next = present[present.indexOf(letter) + 1];
    if (next) main.append(el('p', {class: 'next'}, say('next') + ' ', el('a', {href: '#' + next}, say(next + '.title'))));
    if (focus) {
        main.focus({preventScroll: true});
        window.scrollTo(0, 0);
    }
}

function stop(message) {
    document.getElementById('main').replaceChildren(el('p', {class: 'stop', role: 'alert'}, message));
}

async function start() {
    const options = new URLSearchParams(location.search);
    page.teacher = options.has('teacher');
    if (options.has('record')) page.record = [];
    const wanted = options.get('language') || navigator.language.slice(0, 2);
    page.language = texts[wanted] ? wanted : 'en';
    const select = document.getElementById('language');
    for (const name of Object.keys(texts)) select.append(el('option', {value: name, selected: name === page.language}, texts[name].name));
    select.onchange = () => {
        page.language = select.value;
        show(page.letter, page.state);
    };
    if (typeof WebAssembly !== 'object') return stop(say('no_wasm'));
    /* a module with one instruction of SIMD */
    const simd = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0,
        253, 15, 253, 98, 11]);
    if (!WebAssembly.validate(simd)) return stop(say('no_simd'));
    try {
        page.program = await createProgram();
    } catch (error) {
        return stop(say('no_start') + ' ' + error);
    }
    const begin = (focus) => {
        const {letter, values} = readHash();
        show(letter || page.letters.find((name) => stations[name]), values, focus);
    };
    window.addEventListener('hashchange', () => begin(true));
    begin(false);
    document.documentElement.dataset.ready = 'yes';
}

document.addEventListener('DOMContentLoaded', start);
