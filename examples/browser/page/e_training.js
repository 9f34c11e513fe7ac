/* e: training, in slices between two frames, so that the page always answers. */
'use strict';

stations.e = (root, state) => {
    const budget = 14, rates = ['0', '1', '2'], rateNames = ['0.003', '0.01', '0.03'];
    let rate = rates.includes(state.rate) ? state.rate : '1', own = null, word = Number(state.word ?? -1);
    let begun = null, last = null, paired = null, near = null, losses = [], playing = false, frame = 0, slice = 1, speed = null;
    const error = errorLine();
    const map = el('canvas', {role: 'img', 'aria-label': say('e.map_label')});
    const curve = el('div', {style: 'margin-bottom:8px'}), status = el('p', {role: 'status'}), numbers = el('p', {class: 'mono'});
    const mapCard = el('div', {class: 'card'}, map), nearby = el('div', {class: 'nearby'});
    const words = el('select', {onchange: () => {
        word = Number(words.value);
        keep('word', word);
        lookAround();
        draw();
    }});
    const asked = question('e', () => 1, () => paired);
    const play = el('button', {type: 'button', class: 'main', onclick: () => (playing ? pause() : run())});

    function reset() {
        pause();
        keep('rate', rate);
        const answer = own == null ? ask('e.reset ' + rate) : ask(`e.reset ${rate} 1`, own);
        error.textContent = answer.error ?? '';
        if (answer.error) return false;
        begun = last = answer;
        losses = [];
        words.replaceChildren(...answer.words.map((w) => el('option', {value: w.id}, w.token)));
        if (!answer.words.some((w) => w.id === word)) word = (answer.words.find((w) => w.token === '·blue') ?? answer.words[0] ?? {id: 0}).id;
        words.value = String(word);
        lookAround();
        draw();
        tell();
        return true;
    }

    function advance(count) {
        const begin = performance.now(), answer = ask('e.train ' + count);
        error.textContent = answer.error ?? '';
        if (answer.error) return pause();
        last = answer;
        losses.push(...answer.losses);
        lookAround();
        draw();
        return performance.now() - begin;
    }

    function run() {
        playing = true;
        play.textContent = say('e.pause');
        status.textContent = '';
        let before = performance.now(), steps = last.step;
        const next = () => {
            if (!playing) return;
            const used = advance(slice);
            /* a slice takes at most the budget, and one step at least */
            slice = used > budget ? Math.max(1, slice - 1) : Math.min(8, slice + (used < budget / 2 ? 1 : 0));
            const time = performance.now();
            if (speed && time - before > 1000) {
                speed.textContent = `${Math.round((last.step - steps) / (time - before) * 1000)} ${say('e.speed')}`;
                before = time;
                steps = last.step;
            }
            if (last.step >= 3000) return pause();
            frame = requestAnimationFrame(next);
        };
        frame = requestAnimationFrame(next);
    }

    function pause() {
        const was = playing;
        playing = false;
        cancelAnimationFrame(frame);
        play.textContent = say('e.play');
        if (was && last) tell();
    }

    function tell() {
        status.replaceChildren(...sentence(last.loss == null ? 'e.begun' : last.has_pair ? 'e.pair' : 'e.paused', last));
    }

    function lookAround() {
        near = ask('e.neighbors ' + word);
        if (near.error) return;
        nearby.replaceChildren(el('table', {}, el('caption', {class: 'note'}, say('e.near') + ' ', el('b', {}, near.token)),
            el('thead', {}, el('tr', {}, el('th', {colspan: 2, scope: 'colgroup'}, say('e.before')), el('th', {colspan: 2, scope: 'colgroup'}, say('e.now')))),
            el('tbody', {}, near.now.map((_, i) => el('tr', {}, ['before', 'now'].map((when) => near[when][i] && [
                figure(near, `${when}.${i}.token`, 'td'), figure(near, `${when}.${i}.cosine`, 'td')]))))), paragraph('e.cosine', null, 'note'));
    }

    /* ---- pictures ---- */

    function drawMap() {
        const width = Math.min(space(mapCard), 620), height = Math.round(width * .8), scale = window.devicePixelRatio || 1;
        map.width = width * scale;
        map.height = height * scale;
        map.style.width = width + 'px';
        map.style.height = height + 'px';
        const c = map.getContext('2d'), style = getComputedStyle(document.documentElement);
        const color = (name) => style.getPropertyValue('--' + name).trim();
        c.scale(scale, scale);
        c.clearRect(0, 0, width, height);
        if (!last.map) return;
        const all = last.map.flat(), most = (k) => Math.max(...all.map((p) => Math.abs(p[k])), 1e-9);
        const margin = 40, sx = (width / 2 - margin) / most(0), sy = (height / 2 - 16) / most(1);
        const x = (p) => width / 2 + p[0] * sx, y = (p) => height / 2 - p[1] * sy;
        const places = last.map.length, chosen = begun.words.findIndex((w) => w.id === word);
        const neighbors = new Set((near.now ?? []).map((n) => n.token));
        begun.words.forEach((w, i) => {
            c.strokeStyle = color(i === chosen ? 'accent' : 'line');
            c.lineWidth = i === chosen ? 2 : 1;
            c.beginPath();
            for (let k = 0; k < places; k++) {
                const p = last.map[k][i];
                if (k) c.lineTo(x(p), y(p));
                else c.moveTo(x(p), y(p));
            }
            c.stroke();
        });
        c.font = `${width < 480 ? 12 : 13}px ${style.getPropertyValue('--mono')}`;
        c.textAlign = 'center';
        c.textBaseline = 'middle';
        /* the chosen word's name, then the question's and the neighbors', then those of others that have room; else a dot */
        const isNamed = (w) => ['·red', '·blue'].includes(w.token) || neighbors.has(w.token);
        const rank = (w, i) => (i === chosen ? 0 : isNamed(w) ? 1 : 2), names = [];
        begun.words.map((w, i) => [w, i, rank(w, i)]).sort((a, b) => a[2] - b[2]).forEach(([w, i, order]) => {
            const p = last.map[places - 1][i], name = w.token.replaceAll('·', '');
            const half = c.measureText(name).width / 2 + 3, at = Math.min(width - half, Math.max(half, x(p)));
            const shift = (order < 2 ? [0, -18, 18, -36, 36] : [0]).find((by) => names.every((other) =>
                Math.abs(at - other.at) >= half + other.half || Math.abs(y(p) + by - other.middle) >= 18));
            c.fillStyle = color('quiet');
            if (shift !== 0) c.fillRect(x(p) - 1.5, y(p) - 1.5, 3, 3);
            if (shift != null) names.push({name, order, at, half, middle: y(p) + shift});
        });
        for (const {name, order, at, half, middle} of names) {
            c.fillStyle = color(['accent', 'accent-soft', 'card'][order]);
            c.fillRect(at - half, middle - 9, 2 * half, 18);
            c.fillStyle = color(['accent-ink', 'ink', 'quiet'][order]);
            c.fillText(name, at, middle);
        }
    }

    function drawCurve() {
        const width = Math.min(space(curve.parentNode), 480), height = 170, left = 22, bottom = 22, most = Math.max(begun.guess_value, 1e-9) * 1.1;
        const x = (i) => left + (width - left - 8) * (losses.length > 1 ? i / (losses.length - 1) : 0);
        const y = (value) => height - bottom - (height - bottom - 8) * Math.min(1, value / most);
        const every = Math.ceil(losses.length / 400);
        const points = losses.map((value, i) => [i, value]).filter(([i]) => i % every === 0 || i === losses.length - 1);
        curve.replaceChildren(svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': say('e.curve_label')},
            svg('path', {d: `M${left} ${y(0)}H${width}`, stroke: 'var(--edge)', fill: 'none'}),
            svg('path', {d: `M${left} ${y(begun.guess_value)}H${width}`, stroke: 'var(--edge)', 'stroke-dasharray': '3 4', fill: 'none'}),
            svg('path', {d: points.map(([i, value], k) => (k ? 'L' : 'M') + x(i).toFixed(1) + ' ' + y(value).toFixed(1)).join(''),
                stroke: 'var(--accent)', 'stroke-width': 1.8, fill: 'none', 'stroke-linejoin': 'round'}),
            svg('text', {class: 'label', x: left, y: height - 5, 'data-fixed': ''}, '0'),
            begun.ticks.map((value, i) => mark(svg('text', {class: 'label', x: left - 8, y: y(value) + 4, 'text-anchor': 'end'}), begun, `ticks.${i}`)),
            mark(svg('text', {class: 'label', x: width, y: y(begun.guess_value) - 5, 'text-anchor': 'end'}), begun, 'guess'),
            mark(svg('text', {class: 'label', x: width, y: height - 5, 'text-anchor': 'end'}), last, 'step')));
    }

    function draw() {
        if (!begun) return;
        drawMap();
        drawCurve();
        if (last.has_pair) paired = last;
        asked.refresh(playing);
        numbers.replaceChildren(say('e.step') + ' ', figure(last, 'step'), ...(last.loss == null ? [] : [' · ' + say('e.loss') + ' ', figure(last, 'loss')]));
    }

    const area = el('textarea', {rows: 4, placeholder: say('e.own_hint'), spellcheck: 'false'});
    const controls = el('div', {class: 'controls'}, play,
        el('button', {type: 'button', onclick: () => {
            pause();
            advance(1);
            tell();
        }}, say('e.one')),
        el('button', {type: 'button', onclick: reset}, say('e.reset')));
    if (page.teacher) {
        speed = el('span', {class: 'note'});
        root.append(el('div', {class: 'teacher'}, paragraph('teacher'), el('div', {class: 'controls'},
            el('button', {type: 'button', onclick: () => {
                pause();
                for (let i = 0; i < 8; i++) advance(50);
                tell();
            }}, say('e.jump')), speed)));
    }
    root.append(asked, el('div', {class: 'columns'},
        el('div', {}, controls, error, mapCard),
        el('div', {}, numbers, curve, paragraph('e.dashed', null, 'note'), status, el('div', {class: 'controls'}, el('label', {}, say('e.word'), words)),
            nearby)),
        paragraph('e.text'), code('e.model', 'e.step', 'e.neighbors', 'e.pca'),
        el('section', {class: 'card'}, el('h3', {}, say('e.options')),
            el('div', {class: 'controls'}, choose(say('e.rate'), rates, rateNames, rate, (value) => {
                rate = value;
                reset();
            })),
            el('label', {}, say('e.own'), area),
            el('div', {class: 'choices', style: 'margin-top:16px'}, el('button', {type: 'button', onclick: () => {
                const old = own;
                own = area.value;
                if (reset()) root.querySelector('.controls').scrollIntoView({block: 'center'});
                else own = old;
            }}, say('e.own_button')), el('button', {type: 'button', onclick: () => {
                own = null;
                reset();
            }}, say('e.story_button'))), el('p', {class: 'note', style: 'margin-top:16px'}, say('e.own_note'))));
    map.addEventListener('click', (event) => {
        const box = map.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
        const most = (k) => Math.max(...last.map.flat().map((p) => Math.abs(p[k])), 1e-9);
        const sx = (box.width / 2 - 40) / most(0), sy = (box.height / 2 - 16) / most(1), now = last.map[last.map.length - 1];
        const distance = now.map((p) => Math.hypot(box.width / 2 + p[0] * sx - px, 2 * (box.height / 2 - p[1] * sy - py)));
        word = begun.words[distance.indexOf(Math.min(...distance))].id;
        words.value = String(word);
        keep('word', word);
        lookAround();
        draw();
    });
    reset();
    const colors = matchMedia('(prefers-color-scheme: dark)');
    window.addEventListener('resize', draw);
    colors.addEventListener('change', draw);
    page.leave = () => {
        pause();
        window.removeEventListener('resize', draw);
        colors.removeEventListener('change', draw);
    };
};
