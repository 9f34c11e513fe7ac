/* d: one step. Lines carry each row of dy to the row of the table that it was copied from. */
'use strict';

stations.d = (root, state) => {
    const methods = ['0', '1', '2'];
    let ids = state.ids ?? '2 3 5 2', method = methods.includes(state.method) ? state.method : '0', answer = null;
    let step = Math.min(20, Math.max(1, Number.parseInt(state.step, 10) || 1));
    const asked = ask('d.step 0 1', '2 3 5 2'), lookedUp = el('p', {});
    const error = errorLine(), picture = el('div', {class: 'card'}), live = el('div', {'aria-live': 'polite'});
    const rows = el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': say('d.rows')});
    const back = el('button', {type: 'button', onclick: () => go(1)}, say('d.first'));
    const go = (to) => {
        step = to;
        draw();
    };

    const draw = () => {
        keep('ids', ids);
        keep('method', method);
        keep('step', step);
        const found = ask(`d.step ${method} ${step}`, ids);
        if (!isGood(found, error, lookedUp, picture, live, rows)) return;
        answer = found;
        lookedUp.replaceChildren(say('d.looked_up'), ...answer.ids.map((_, i) => [' ', figure(answer, `ids.${i}`)]).flat());
        picture.replaceChildren(drawing());
        live.replaceChildren(...summary());
        rows.replaceChildren(table());
    };

    /* The sum of a repeated id, and what the method did. */
    const summary = () => {
        const lines = [paragraph('d.loss', answer)];
        const twice = answer.ids.find((id, i) => answer.ids.indexOf(id) !== i);
        if (twice != null) {
            const at = answer.ids.map((id, i) => [id, i]).filter(([id]) => id === twice);
            const row = answer.gradient.findIndex((g) => g.id === twice);
            lines.push(el('p', {}, say('d.first_number') + ' ', figure(answer, `gradient.${row}.id`), ': ',
                at.map(([, i], k) => [k ? ' + ' : '', figure(answer, `dy.${i}.0`)]), ' = ', figure(answer, `gradient.${row}.values.0`),
                '. ' + say('d.repeated_why')));
        }
        lines.push(paragraph(method === '0' ? 'd.rate_sgd' : 'd.rate_adam', answer));
        const row = answer.gradient[0].id;
        lines.push(el('p', {}, say('d.first_number') + ' ', figure(answer, 'gradient.0.id'), ': ', figure(answer, `before.${row}.0`),
            method === '0' ? [' − ', figure(answer, 'rate'), ' × ', figure(answer, 'gradient.0.values.0'), ' = '] : ' → ',
            figure(answer, `after.${row}.0`)));
        lines.push(paragraph(step === 1 ? 'd.rows_first' : ['d.rows_sgd', 'd.rows_adam', 'd.rows_deferred'][method], answer));
        if (answer.refusal) lines.push(el('p', {class: 'note'}, say('d.refusal') + ' ', figure(answer, 'refusal')));
        return lines;
    };

    const table = () => el('table', {class: 'after'}, el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, say('b.row')),
        el('th', {scope: 'col', colspan: 3, class: 'roomy'}, say('d.before')), el('th', {scope: 'col', colspan: 3}, say('d.after')), el('td'))),
        el('tbody', {}, answer.after.map((row, i) => el('tr', {}, el('th', {scope: 'row'}, String(i)),
            row.map((_, k) => fill(figure(answer, `before.${i}.${k}`, 'td'), {class: 'roomy'}, [])),
            row.map((_, k) => fill(figure(answer, `after.${i}.${k}`, 'td'), {class: answer.same[i] ? null : 'on'}, [])),
            el('td', {class: 'words'}, say(answer.same[i] ? 'd.same' : answer.ids.includes(i) ? 'd.moved' : 'd.drifted'))))));

    function drawing() {
        const width = Math.min(space(picture), 620), narrow = width < 480, cell = narrow ? 43 : 66, high = 34, top = 30;
        const left = narrow ? 20 : 60, right = width - 3 * cell - 1, count = Math.max(6, answer.ids.length);
        const down = Math.max(0, (6 - answer.ids.length) * high / 2), y = (i) => top + i * high;
        const size = narrow ? 'font-size:10.2px' : null;
        const shade = (figure) => tint(Number(figure) / 6, 60);
        const row = (x, at, path, figures) => figures.map((value, k) => [
            svg('rect', {x: x + k * cell + 1, y: at + 1, width: cell - 2, height: high - 6, rx: 3, style: `fill:${shade(value)}`}),
            mark(svg('text', {x: x + k * cell + cell / 2, y: at + high / 2 + 2, 'text-anchor': 'middle', style: size}), answer, `${path}.${k}`)]);
        const id = (x, at, value, path) => path ? mark(svg('text', {x, y: at + high / 2 + 2, 'text-anchor': 'end'}), answer, path)
            : svg('text', {x, y: at + high / 2 + 2, 'text-anchor': 'end', class: 'label', 'data-fixed': ''}, String(value));
        const from = left + 3 * cell + 2, to = right - (narrow ? 16 : 20);
        return svg('svg', {width, height: top + count * high + 4, viewBox: `0 0 ${width} ${top + count * high + 4}`, role: 'group',
            'aria-label': say('d.picture')},
            svg('text', {class: 'label', x: narrow ? 4 : left, y: 16}, say('d.dy')),
            svg('text', {class: 'label', x: width, y: 16, 'text-anchor': 'end'}, say('d.gradient')),
            answer.ids.map((value, i) => {
                const a = y(i) + down + high / 2 - 2, b = y(value) + high / 2 - 2, bend = (to - from) / 2;
                return [svg('path', {class: 'path', fill: 'none', stroke: 'var(--accent)', 'stroke-width': 1.8,
                    d: `M${from} ${a} C${from + bend} ${a}, ${to - bend - 6} ${b}, ${to - 10} ${b}`}),
                svg('path', {d: `M${to - 4} ${b} l-7 -4 v8 z`, fill: 'var(--accent)'})];
            }),
            answer.ids.map((value, i) => [id(left - 6, y(i) + down, value, `ids.${i}`), row(left, y(i) + down, `dy.${i}`, answer.dy[i])]),
            answer.after.map((_, i) => {
                const g = answer.gradient.findIndex((gradient) => gradient.id === i);
                return [id(right - 5, y(i), i, g < 0 ? null : `gradient.${g}.id`), g >= 0 ? row(right, y(i), `gradient.${g}.values`, answer.gradient[g].values)
                    : svg('text', {class: 'label', x: right + 1.5 * cell, y: y(i) + high / 2 + 2, 'text-anchor': 'middle'}, say('d.none'))];
            }));
    }

    const input = textInput(say('b.ids'), ids, paused((value) => {
        ids = value;
        go(1);
    }));
    root.append(question('d', () => 1, () => asked), el('div', {class: 'controls'}, input,
        choose(say('d.method'), methods, ['SGD', 'Adam', say('d.deferred')], method, (value) => {
            method = value;
            draw();
        })), error, lookedUp,
        el('div', {class: 'columns'}, el('div', {}, picture, paragraph('d.reason')), live),
        el('section', {class: 'card'}, el('h3', {}, say('d.rows')), el('div', {class: 'controls'},
            el('button', {type: 'button', class: 'main', onclick: () => go(Math.min(20, step + 1))}, say('d.next')), back), rows,
            el('p', {class: 'note'}, say('d.next_why'))), code('d.step', 'd.update'));
    draw();
    const resized = () => answer && picture.replaceChildren(drawing());
    window.addEventListener('resize', resized);
    page.leave = () => window.removeEventListener('resize', resized);
};
