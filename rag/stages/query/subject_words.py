"""Word lists of question subjects: words that ask or join, and words for what a thing has.

A word of neither list says what a question is about. Both languages, folded.
"""

from __future__ import annotations

from rag.stages.text.terms import STOP_WORDS

# They ask, join, count or do nothing in particular.
_EMPTY = (
    " 一般 通常 大概 大约 平时 目前 现在 最近 今年 明年 最 最好 最多 最少 最长 最高 最大 最低"
    " 最快 至少 一共 总共 每天 每年 每月 每次 一次 一天 一年 一月 突然 真的 到底 究竟 具体"
    " 主要 几 几个 几天 几年 几月 几月份 几点 几次 几种 几本 几回 几岁 哪一年 哪年 哪天 哪些"
    " 什么样 多少钱 多远 多重 多快 多深 多宽 多热 有用 有没有 能用 能不能 可不可以 行不行"
    " 好不好 不能 行 好 对 合适 最合适 比较 方便 值得 容易 需要 必须 应 应该 得 要 会 能 可以"
    " 可 准备 进行 发生 包括 属于 成为 做 去 来 到 拿 办 弄 找 问 说 看 用 有 没 没有 是 不是"
    " 在 从 给 让 被 把 跟 和 同 向 往 里 里面 上 上面 下 中 内 外 前 后 时 之前 之后 以前"
    " 以后 时候 期间 前要 先 再 就 才 都 也 还 又 已 已经 注意 正在 曾 曾经 后来 过后 完 很"
    " 太 更 越 非常 吗 呢 吧 啊 呀 嘛 的话 如果 假如 要是 那 那么 这 这个 那个 这些 那些 这种"
    " 那种 此 该 其 它 它们 他 他们 她 她们 我 我们 你 你们 您 咱们 自己 别人 大家 本 本人"
    " 怎么 怎么样 怎样 如何 为什么 为何 为啥 哪 哪里 哪儿 哪个 哪种 谁 啥 什么 多 多久 多长"
    " 多大 多高 多少 何时 是否 能否 可否 区别 差别 不同 优点 缺点 了 着 过 的 地 个 些 次 年"
    " 月 日 天 只 条 件 一个 一些 一下 一种 换成 改成 另外 还有 另 请问 请 想 想问 想要 知道"
    " 告诉 帮 处理 怎么办 咋办 回事 干 变 变大 变成 算 叫 当 由 由于 因为 所以 但 但是 而 与"
    " 或 及 以及 并 等 关于 对于 best better good bad worst long short high low large small"
    " big far early late often much many few highest lowest easiest hardest cheapest first"
    " last next other another main usual usually typical typically normal normally average"
    " recommended new latest current currently exactly actually really still already always"
    " never sometimes today now later soon afterwards then month week day year hour minute"
    " time times moment way ways thing things kind kinds type types sort sorts people person"
    " person's one ones someone anyone anybody everything anything something nothing place"
    " places take takes took taken make makes made making go goes going come comes came use"
    " used using need needs needed allow allowed allowing include included includes happen"
    " happens happened work works working keep put set let try start visit begin did done"
    " doing cause causes caused called mean means meant support supports supported require"
    " required requires provide possible available necessary enough sure right left different"
    " difference differences between else instead anyway apply applies designed ago okay ok"
    " yes no thanks hello hi hey worth recommend suggest mention cover covers covered own"
    " what's where's that's there's isn't aren't wasn't doesn't it'll per than"
)
EMPTY = STOP_WORDS | frozenset(_EMPTY.split())
# What a thing has, or what is done with any thing: whose it is has to be said beside it.
_RELATIONS = (
    " 价格 价钱 费用 钱 收费 成本 单价 门票 票价 时间 日期 期限 时限 有效期 保修期 保质期"
    " 寿命 年龄 作者 名字 名称 编号 型号 尺寸 大小 重量 长度 高度 宽度 温度 压力 功率 容量"
    " 速度 精度 量程 电压 电流 材料 资料 手续 流程 步骤 条件 要求 标准 规定 政策 注意事项"
    " 原因 理由 影响 后果 结果 作用 用途 好处 坏处 缺点 优点 特点 副作用 症状 电话 地址"
    " 联系方式 网址 邮箱 负责人 方式 方法 办法 额度 比例 利率 税率 数量 人数 次数 频率 部分"
    " 内容 意思 含义 定义 历史 背景 地点 位置 申请 办理 安装 使用 购买 买 买到 维护 保养 清洗"
    " 更换 换 检查 修 维修 开 关 优惠 折扣 月份 开放 营业 预约 值 双方 对方 局势 网上 本地"
    " price prices cost costs costing fee fees charge charges ticket tickets warranty"
    " guarantee weight size length height width depth speed power capacity temperature"
    " pressure voltage range age lifetime lifespan colour color number amount limit maximum"
    " minimum deadline date duration hours opening address phone email contact author owner"
    " name title version default reason reasons effect effects consequence consequences"
    " result results purpose function benefit benefits risk risks advantage advantages"
    " disadvantage disadvantages requirement requirements condition conditions rule rules"
    " step steps procedure process option options part parts side feature features detail"
    " details example examples meaning definition history policy allowance apply applying buy"
    " bought install installed installing replace change changed changing checked clean order"
    " pay paid exceeded"
)
RELATIONS = frozenset(_RELATIONS.split())
# Words that end so are of something, too: 误工费, 电导率, 借期.
RELATION_ENDS = (
    *("费", "价", "率", "量", "值", "度", "期", "标准", "信号", "时间", "比例", "材料", "条件"),
    *("方式", "方法", "原因", "流程", "要求", "日期", "票", "地点", "位置"),
)
