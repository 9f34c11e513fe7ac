"""browser_page PAGE STATIONS AXE OUT [STATION...]: drives the page as a visitor does, and checks what it shows."""
import gzip
import json
import pathlib
import subprocess
import sys
import time

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

WIDTHS = (390, 768, 1440)
MOST_BYTES = 1500000


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Page:
    """One browser with the page, and the console program beside it."""

    def __init__(self, page, stations, axe, out):
        self.url = pathlib.Path(page).resolve().as_uri()
        self.stations, self.out = stations, pathlib.Path(out)
        self.axe = pathlib.Path(axe).read_text()
        options = webdriver.ChromeOptions()
        for argument in ('--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--hide-scrollbars',
                         '--host-resolver-rules=MAP * ~NOTFOUND', '--disable-gpu', '--lang=en'):
            options.add_argument(argument)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        options.binary_location = '/usr/bin/chromium'
        self.driver = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)
        self.driver.set_script_timeout(120)
        self.driver.execute_cdp_cmd('Network.enable', {})
        self.driver.execute_cdp_cmd('Network.emulateNetworkConditions',
                                    {'offline': True, 'latency': 0, 'downloadThroughput': 0, 'uploadThroughput': 0})
        self.resize(1440)
        self.compared = 0

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def resize(self, width, height=900):
        self.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride',
                                    {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': width < 500})

    def open(self, address, options='record&language=en'):
        self.driver.get('about:blank')
        self.driver.get(f'{self.url}?{options}#{address}')
        self.wait(lambda: self.script('return document.documentElement.dataset.ready') == 'yes', 'the page starts')

    def wait(self, condition, what, seconds=30):
        end = time.time() + seconds
        while not condition():
            expect(time.time() < end, f'waited {seconds} s: {what}')
            time.sleep(0.05)

    def one(self, selector):
        found = self.script('''return [...document.querySelectorAll(arguments[0])].find(
            (node) => node.getClientRects().length)''', selector)
        expect(found, f'no {selector} is shown')
        return found

    def text(self, selector):
        return self.script('return document.querySelector(arguments[0]).textContent', selector)

    def button(self, text):
        found = self.script('''return [...document.querySelectorAll('main button')].find(
            (node) => node.textContent === arguments[0] && node.getClientRects().length)''', text)
        expect(found, f'no button "{text}"')
        return found

    def type(self, selector, text):
        """Replaces the text of a field by keys, and waits until the page has asked the program."""
        field = self.one(selector)
        before = self.script('return page.asked')
        field.send_keys(Keys.CONTROL, 'a')
        field.send_keys(text or Keys.BACKSPACE)
        self.wait(lambda: self.script('return page.asked') > before, 'an answer to what was typed')
        time.sleep(0.3)

    def paste(self, selector, text):
        """Puts a text into a field as a paste does: too long for keys, or with signs that chromedriver cannot type."""
        self.script('''const field = document.querySelector(arguments[0]);
            field.focus(); field.select(); document.execCommand('insertText', false, arguments[1]);''', selector, text)
        time.sleep(0.5)

    def error(self):
        return self.script('return [...document.querySelectorAll(".error")].map((node) => node.textContent).join(" ").trim()')

    def figures(self):
        """Compares each number on the page with the console program, which gets the same requests in the same order."""
        requests, shown, loose = self.script('''
            const visible = (node) => node.getClientRects().length > 0;
            const loose = [...document.querySelectorAll('main svg text, main td, main .figure')].filter((node) =>
                visible(node) && /[0-9]/.test(node.textContent) && !node.closest('[data-from]') &&
                !node.querySelector('[data-from]') && !node.closest('[data-fixed]') && !node.closest('[data-row]'));
            return [page.record, [...document.querySelectorAll('[data-from]')].map((node) =>
                [node.getAttribute('data-from'), node.textContent]), loose.map((node) => node.textContent)];''')
        expect(not loose, f'numbers that are not of an answer: {loose[:5]}')
        expect(shown, 'no number is shown')
        ran = subprocess.run([self.stations], input=b''.join(r.encode() + b'\0' for r in requests), capture_output=True,
                             check=True)
        answers = [json.loads(line) for line in ran.stdout.decode().split('\n') if line]
        expect(len(answers) == len(requests), 'the console program has answered each request')
        for source, text in shown:
            number, path = source.split(':')
            at = answers[int(number)]
            for key in path.split('.'):
                at = at[int(key)] if isinstance(at, list) else at[key]
            native = {True: 'true', False: 'false'}.get(at, at) if isinstance(at, bool) else at
            expect(text == str(native), f'{requests[int(number)]!r} {path}: the page shows {text!r}, the library {native!r}')
        self.compared += len(shown)
        return answers

    def silent(self):
        log = [entry for entry in self.driver.get_log('browser') if entry['level'] in ('SEVERE', 'WARNING')]
        expect(not log, f'the console has {log}')

    def accessible(self, what):
        self.script(self.axe)
        found = self.driver.execute_async_script('''const done = arguments[0];
            axe.run(document, {resultTypes: ['violations']}).then((result) => done(result.violations.map((v) =>
                v.id + ': ' + v.nodes.map((n) => n.target.join(' ') + ' ' + (n.any[0] || n.all[0] || {message: ''}).message).slice(0, 3).join('; '))));''')
        expect(not found, f'{what}: axe finds {found}')

    def focus_order(self):
        """Tab reaches each control, in the order in which they stand in the document."""
        count = self.script('''window.reachable = [...document.querySelectorAll('a[href], button, select, input, textarea, [tabindex="0"]')].filter(
            (node) => node.getClientRects().length && !node.disabled); return reachable.length''')
        seen = []
        self.script('reachable[0].focus({focusVisible: true})')
        for _ in range(count + 5):
            seen.append(self.script('''const a = document.activeElement;
                const style = getComputedStyle(a);
                return [reachable.indexOf(a), style.outlineStyle !== 'none' || !!a.querySelector('.ring')]'''))
            self.driver.switch_to.active_element.send_keys(Keys.TAB)
        order = [index for index, _ in seen if index >= 0]
        expect(order == sorted(order[:count]) + order[count:] or sorted(set(order)) == order[:len(set(order))],
               f'the order of the focus is {order}')
        groups = self.script('''return new Set(reachable.filter((n) => n.type === 'radio').map((n) => n.name)).size -
            reachable.filter((n) => n.type === 'radio').length''')
        expect(len(set(order)) >= count + groups, f'the focus reaches {len(set(order))} of {count} controls')
        expect(all(visible for index, visible in seen if index >= 0), 'the focus is visible')

    def screenshots(self, name):
        for scheme in ('light', 'dark'):
            self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia',
                                        {'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})
            for width in WIDTHS:
                self.resize(width)
                time.sleep(0.4)
                room = self.script('return [document.documentElement.scrollWidth, window.innerWidth]')
                expect(room[0] <= room[1], f'{name}: {room[0]} px wide at {width} px')
                height = self.script('return document.documentElement.scrollHeight')
                self.resize(width, min(height, 6000))
                time.sleep(0.2)
                self.driver.save_screenshot(str(self.out / f'{name}-{width}-{scheme}.png'))
            self.resize(1440)
            time.sleep(0.3)
            self.accessible(f'{name}, {scheme}')
        self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': []})


# ---- the stations ----

def test_a(page):
    page.open('a')
    page.button('one').click()
    expect('Yes.' in page.text('.verdict') and 'is 1 token' in page.text('.verdict'), page.text('.verdict'))
    page.type('main textarea', 'The lighthouse keeper')
    expect([token['id'] for token in page.figures()[-1]['tokens']] == [282, 524, 507], 'the ids of the story')
    page.type('main textarea', '')
    expect('An empty text has no tokens.' in page.text('main'), 'an empty text')
    for text in ('🐈 sat', 'القط جلس', 'a\u0000b', 'x' * 100000):
        begin = time.time()
        page.paste('main textarea', text)
        expect(page.error() == '' and time.time() - begin < 4, f'{page.error()} {time.time() - begin}')
        page.figures()
    page.paste('main textarea', 'é' * 60000)
    expect('the text has 120000 bytes' in page.error(), page.error())
    page.type('main textarea', 'The keeper of the lighthouse saw a grey whale.')
    last = page.figures()[-1]
    expect(f"The first 4 of {last['windows_count']} windows." in page.text('main'), 'windows are cut')
    page.type('main input', 'lighthouse')
    steps = page.figures()[-1]['steps']
    expect(len(steps) == 11 and [token['id'] for token in steps[-1]['tokens']] == [524], 'the merges of a word')
    page.type('main input', "don't!")
    page.figures()
    page.paste('main input', 'x' * 100)
    expect('this one has 100' in page.error(), page.error())
    page.type('main input', 'harbor')


def test_c(page):
    page.open('c')
    answers = page.figures()
    expect(answers[0]['sum'] == ['0.6', '0.1', '0.0'], 'the sum of the book')
    expect(not any(answers[1]['differs']) and all(answers[2]['differs']), 'positions tell the order')
    page.button('the same vector').click()
    expect('Yes.' in page.text('.verdict'), 'the verdict')
    page.button('added').send_keys(Keys.SPACE)
    expect('With positions every word' in page.text('main'), 'with positions')
    page.figures()
    for _ in range(11):
        page.one('main select').send_keys(Keys.ARROW_DOWN)
        page.figures()
    expect('each token sees all others alike' in page.text('main'), 'no positions')
    page.open('c?kind=3&added=1')
    expect(page.figures()[-1]['name'] == 'alibi', 'the URL sets the state')


def test_b(page):
    page.open('b')
    answers = page.figures()
    expect([row for row in answers[0]['table']] == [
        ['0.3374', '-0.1778', '-0.1690'], ['0.9178', '1.5810', '1.3010'], ['1.2753', '-0.2010', '-0.1606'],
        ['-0.4015', '0.9666', '-1.1481'], ['-1.1589', '0.3255', '-0.6315'], ['-2.8400', '-0.7849', '-1.4096']],
        'the 18 figures of the book')
    page.button('none').click()
    expect('Yes.' in page.one('.verdict').text, 'the verdict')
    page.one('[data-row="4"]').click()
    expect(page.one('main input').get_attribute('value') == '2 3 5 1 4', 'a click adds an id')
    page.one('[data-row="4"]').send_keys(Keys.ENTER)
    expect(page.one('main input').get_attribute('value') == '2 3 5 1', 'a key takes it out')
    page.type('main input', '0, 0 5')
    expect('ids=0' in page.script('return location.hash'), 'the state is in the URL')
    page.figures()
    page.type('main input', '7')
    expect('embedding: id 7 at [0] is outside [0,6): ids go from 0 to 5' in page.error(), page.error())
    expect(page.script('return document.querySelectorAll(".stale").length') == 3, 'the old result is grey')
    page.type('main input', '')
    expect('there is no id' in page.error(), page.error())
    page.paste('main input', 'شمال 🐈')
    expect('is not an id' in page.error(), page.error())
    page.type('main input', '2 3 5 2')
    expect(page.error() == '' and not page.script('return document.querySelector(".stale")'), page.error())
    page.button('Look up a batch of the story').click()
    page.figures()
    page.open('b?ids=4+4')
    expect(page.one('main input').get_attribute('value') == '4 4', 'the URL sets the state')


def test_e(page):
    page.open('e')
    page.button('Play').click()
    page.wait(lambda: int(page.text('.mono .figure')) >= 20, 'some steps')
    begin, steps = page.script('return [performance.now(), document.querySelector(".mono .figure").textContent]')
    time.sleep(4)
    end, more = page.script('return [performance.now(), document.querySelector(".mono .figure").textContent]')
    page.rate = (int(more) - int(steps)) / (end - begin) * 1000
    print(f'station e: {page.rate:.0f} steps a second')
    page.button('Pause').click()
    count = page.text('.mono .figure')
    time.sleep(0.5)
    expect(page.text('.mono .figure') == count, 'the training pauses')
    page.button('near each other').click()
    expect(f'after {count} steps' in page.text('.verdict'), page.text('.verdict'))
    page.button('One step').click()
    expect(int(page.text('.mono .figure')) == int(count) + 1, 'one step is one step')
    expect(f'after {int(count) + 1} steps' in page.text('.verdict'), 'the verdict has the numbers of this step')
    answers = page.figures()
    bits = [answer['bits'] for answer in answers if 'bits' in answer]
    shown = page.script('return ask("e.train 1").bits')
    expect(page.figures()[-1]['bits'] == shown and shown not in bits, 'the bits of the table are those of the library')
    page.script('document.querySelector("main select").focus()')
    page.driver.switch_to.active_element.send_keys('sea')
    page.one('canvas').click()
    page.figures()
    for text, message in (('', 'the text has 0 bytes; it needs 200'), (' ' * 300, 'a window of 8 and its target need 9'), ('x' * 100001, 'the text has 100001 bytes')):
        page.paste('main textarea', text) if text else page.script('document.querySelector("main textarea").value = ""')
        page.button('Train on this text').click()
        expect(message in page.error(), page.error())
    page.button('One step').click()
    expect(page.error() == '', 'the training goes on after a text was refused')
    for text in ('The cat 🐈 sat. ' * 40, 'القط جلس على الحصيرة والكلب نام. ' * 30, '고양이가 매트 위에 앉았다. ' * 30,
                 'a b c ' * 40, ('Some words of ' + ' '.join(f'text{i % 97}' for i in range(12000)))[:100000]):
        page.script('document.querySelector("main textarea").value = arguments[0]', text)
        begin = time.time()
        page.button('Train on this text').click()
        seconds = time.time() - begin
        expect(page.error() == '', page.error())
        expect(seconds < 3, f'{len(text)} characters took {seconds:.1f} s')
        page.button('One step').click()
        page.figures()
    page.open('e?rate=2', 'record&language=en&teacher')
    page.button('400 steps at once').click()
    page.figures()


def test_d(page):
    page.open('d')
    first = page.figures()[-1]
    expect(first['same'] == [True, True, False, False, True, False], 'SGD changes the rows that were read')
    expect('2.5506 + 2.5506 = 5.1012' in page.text('main'), 'a repeated id gets the sum of its gradients')
    page.button('they are added').click()
    expect('Yes.' in page.text('.verdict'), 'the verdict')
    page.button('Next step').click()
    expect(page.figures()[-1]['same'] == [True, True, False, True, True, True], 'SGD leaves the other rows')
    page.button('Adam').click()
    expect(page.figures()[-1]['same'] == [True, True, False, False, True, False], 'Adam moves rows without a gradient')
    page.button('Adam, deferred').send_keys(Keys.ENTER)
    for _ in range(3):
        page.button('Next step').send_keys(Keys.SPACE)
    last = page.figures()[-1]
    expect(last['step'] == 5 and float(last['difference']) < 1e-6, 'deferred Adam is Adam')
    expect('tg_optim_flush first' in page.text('main'), 'the library refuses to read a table that is behind')
    page.type('main input', '4 1')
    expect(page.figures()[-1]['step'] == 1 and 'Looked up in this step: 4 1' in page.text('main'), 'new ids begin at step 1')
    page.type('main input', '6')
    expect('embedding: id 6 at [0] is outside [0,6)' in page.error(), page.error())
    page.type('main input', '-1 2')
    expect('embedding: id -1 at [0] is outside [0,6)' in page.error(), page.error())
    page.type('main input', '0 0 0 0 0 0 1 2 3 4 5 0')
    page.figures()
    page.open('d?ids=2+3+5+2&method=1&step=3')
    expect(page.figures()[-1]['step'] == 3, 'the URL sets the state')


def test_f(page):
    page.open('f')
    for name, wrong, text in (('as it should be', 0, 'passed, 216 compared'), ('-= for +=', 9, 'analytic -1, numeric 1'),
                              ('= for +=', 3, 'backward must add'), ('the next row', 15, 'analytic 1, numeric 0'),
                              ('a column forgotten', 3, 'analytic 0, numeric 1')):
        page.button(name).click()
        answer = page.figures()[-1]
        expect(answer['wrong_entries'] == wrong and text in page.text('.check'), f'{name}: {answer}')
        expect(page.script('return document.querySelectorAll("td.wrong").length') == 2 * wrong, f'{name}: marked entries')
        expect(page.script('return document.querySelectorAll("td.named").length') == (name != 'as it should be') * 2, 'named')
    page.button('= for +=').click()
    expect('= dy[i' in page.text('.code') and '+= dy' not in page.text('.code'), 'the lines that ran')
    page.type('main input', '2 3 5 1')
    expect('agree for these ids' in page.text('main'), 'ids without a repetition hide the mistake')
    page.figures()
    page.type('main input', '999999999')
    expect('my_embedding: id 999999999 at [0] is outside [0,6)' in page.error(), page.error())
    page.type('main input', '2 3 5 2')


def test_languages(page):
    """Each language lays each station out: its numbers are the same, and it is not wider than a phone."""
    page.resize(390)
    for language in page.script('return Object.keys(texts)'):
        for station in 'abcdef':
            page.open(station, f'record&language={language}')
            page.figures()
            expect(page.script('return document.documentElement.lang') == language, 'the language of the document')
            width = page.script('return document.documentElement.scrollWidth')
            expect(width <= 390, f'{language}, {station}: {width} px wide')
            page.driver.save_screenshot(str(page.out / f'{station}-{language}.png'))
    page.resize(1440)
    page.one('#language').send_keys('English')
    expect('Break the gradient' in page.text('h2'), 'a visitor chooses the language')


def test_old_browsers(page):
    """Without WebAssembly, or without its SIMD, the page says what is missing."""
    for script, message in (('delete window.WebAssembly', 'does not run'),
                            ('WebAssembly.validate = () => false', 'vector instructions (SIMD)')):
        added = page.driver.execute_cdp_cmd('Page.addScriptToEvaluateOnNewDocument', {'source': script})
        page.driver.get('about:blank')
        page.driver.get(f'{page.url}?language=en')
        page.wait(lambda: message in page.text('main'), message)
        page.accessible(message)
        page.driver.execute_cdp_cmd('Page.removeScriptToEvaluateOnNewDocument', added)


# These have no picture of their own.
OTHERS = {'languages': test_languages, 'old_browsers': test_old_browsers}

TESTS = {'a': test_a, 'b': test_b, 'c': test_c, 'd': test_d, 'e': test_e, 'f': test_f}


def main():
    page_path, stations, axe, out = sys.argv[1:5]
    page = Page(page_path, stations, axe, out)
    failed = 0
    size = len(gzip.compress(pathlib.Path(page_path).read_bytes()))
    print(f'size: {size} bytes gzipped')
    try:
        failed += size > MOST_BYTES
        for name, test in {**TESTS, **OTHERS}.items():
            if sys.argv[5:] and name not in sys.argv[5:]:
                continue
            try:
                begin = time.time()
                test(page)
                if name in TESTS:
                    page.focus_order()
                    page.screenshots(name)
                page.silent()
                print(f'{name}: passed in {time.time() - begin:.1f} s')
            except (Failure, WebDriverException) as failure:
                page.driver.save_screenshot(str(page.out / f'failed-{name}.png'))
                print(f'{name}: {failure}; console: {page.driver.get_log("browser")}')
                failed += 1
        page.open('b')
        paint = page.script('return performance.getEntriesByName("first-contentful-paint")[0]?.startTime')
        ready = page.script('return performance.now()')
        print(f'first picture after {paint} ms, all there within {ready:.0f} ms; {page.compared} numbers compared')
    finally:
        page.driver.quit()
    sys.exit(1 if failed else 0)


main()
