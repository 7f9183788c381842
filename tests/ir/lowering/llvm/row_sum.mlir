// RUN: vk-opt %s | lower-to-llvm | filecheck %s
// A sum along the lane axis adds registers up first, then the lanes of the one that is left.

vk.mapped @row(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[1], f32>) lanes i facts {sizes = {N = 16}, multiples = {}, strides = {x = [1], out = [1]}, distinct} {
  %c1 = arith.constant 1 : i64
  vk.launch "row" over (%p = %c1) {
    %a = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<16xf32, #vk.axes<i>>
    %s = vk.sum %a along i : tensor<16xf32, #vk.axes<i>> -> f32
    vk.store %s in %out[0] : !vk.tensor<[1], f32> <- f32
  }
}

// CHECK:      [[BOTH:%[0-9]+]] = arith.addf {{%[0-9]+}}, {{%[0-9]+}} : vector<8xf32>
// CHECK-NEXT: [[SUM:%[0-9]+]] = "llvm.intr.vector.reduce.fadd"({{%[0-9]+}}, [[BOTH]]) <{fastmathFlags = #llvm.fastmath<reassoc>}> : (f32, vector<8xf32>) -> f32
// CHECK-NEXT: llvm.store [[SUM]], %slot2 {alignment = 4 : i64} : f32, !llvm.ptr
